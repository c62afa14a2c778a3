"""How a history becomes part of a prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.sessions.assemble import assemble, spoken
from reference_server.text.prompt import Message, PacedText, PromptTooLong

TEXT = PacedText()


def talk(*words: str) -> list[Message]:
    """user, assistant, user ... one word each."""
    roles = ("user", "assistant")
    return [Message(roles[number % 2], (word,)) for number, word in enumerate(words)]


def test_everything_is_used_when_it_fits() -> None:
    new = [Message("system", ("be",)), *talk("c")]
    found = assemble(TEXT, talk("a", "b"), new, 100)
    assert (found.history, found.dropped) == (2, 0)
    # Four words and the three line ends between them.
    assert found.prompt.count == 7


def test_system_messages_are_never_remembered() -> None:
    messages = [Message("system", ("s",)), Message("developer", ("d",)), *talk("u")]
    assert spoken(messages) == talk("u")


def test_the_oldest_exchanges_go_whole() -> None:
    # a\nb\nc\nd\ne is 9 pieces; without a and b 5.
    found = assemble(TEXT, talk("a", "b", "c", "d"), talk("e"), 8)
    assert (found.history, found.dropped, found.prompt.count) == (2, 2, 5)
    found = assemble(TEXT, talk("a", "b", "c", "d"), talk("e"), 1)
    assert (found.history, found.dropped) == (0, 4)


def test_what_the_request_brings_is_never_cut() -> None:
    with pytest.raises(PromptTooLong):
        assemble(TEXT, talk("a", "b"), talk("c", "d", "e"), 4)
    with pytest.raises(PromptTooLong):
        assemble(TEXT, [], talk("c", "d", "e"), 4)


@given(words=st.lists(st.sampled_from(["a", "b c", "d e f g"]), max_size=30), limit=st.integers(1))
def test_no_more_is_dropped_than_must_be(words: list[str], limit: int) -> None:
    history, new = talk(*words), talk("x")
    found = assemble(TEXT, history, new, limit)
    assert found.prompt.count <= limit and found.history + found.dropped == len(history)
    if found.dropped:
        assert found.dropped == len(history) or history[found.dropped].role == "user"
        earlier = [n for n in range(found.dropped) if n == 0 or history[n].role == "user"]
        for start in earlier:
            with pytest.raises(PromptTooLong):
                TEXT.chat([*history[start:], *new], limit)
