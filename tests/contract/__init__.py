"""Both packages against the timing contract."""
