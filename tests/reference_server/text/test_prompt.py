"""The paced engine's prompt: counted, not encoded."""

from __future__ import annotations

import pytest

from reference_server.text.prompt import Message, PacedText, Prompt, PromptTooLong


def test_every_text_of_a_conversation_is_counted_a_line_each() -> None:
    messages = [
        Message("system", ("Be brief.",)),
        Message("user", ("one", "two")),
        Message("a", ()),
    ]
    assert PacedText().chat(messages, 100) == Prompt(7)
    assert messages[1].text == "one\ntwo" and messages[2].text == ""


def test_a_prompt_above_the_limit_is_too_long() -> None:
    assert PacedText().plain("one two", 2).count == 2
    with pytest.raises(PromptTooLong):
        PacedText().plain("one two three", 2)
