"""Stop texts: the same result wherever the text is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reference_server.text.stops import StopTexts


def test_only_what_may_become_a_stop_text_is_held_back() -> None:
    stops = StopTexts(("STOP",))
    assert [stops.push(piece) for piece in ("a S", "T", "x ST", "OP b", "c")] == [
        *("a ", "", "STx ", "", "")
    ]
    assert stops.stop_text == "STOP" and stops.end() == ""


def test_what_was_held_back_comes_at_the_end() -> None:
    stops = StopTexts(("\n\nEnd", "###"))
    assert stops.push("done\n\nE") == "done" and stops.end() == "\n\nE"
    assert stops.stop_text is None


@pytest.mark.parametrize(
    ("stops", "left"), [(("abc", "b"), "a"), (("bc", "abc"), ""), (("c", "abcd"), "ab")]
)
def test_the_first_that_is_complete_ends_it(stops: tuple[str, ...], left: str) -> None:
    assert StopTexts(stops).push("abcd") == left


def _by_the_rule(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    """The definition, character by character."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


@given(
    st.text("ab", max_size=30),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=4).map(tuple),
    st.lists(st.integers(0, 30), max_size=8),
)
@example("aab", ("ab",), [2])
def test_the_result_does_not_depend_on_the_cuts(
    text: str, stops: tuple[str, ...], cuts: list[int]
) -> None:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    passed = StopTexts(stops)
    got = [passed.push(text[a:b]) for a, b in pairwise(edges)]
    assert ("".join(got) + passed.end(), passed.stop_text) == _by_the_rule(text, stops)
