"""Who runs when: pure policy and the hand-over between an engine and the API. No torch."""
