"""Tokens of texts and of the events of a stream."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.dialect.tokens.count import Pieces, correct, count_source
from promptpath.dialect.tokens.vocabulary import o200k_base


def counts(texts: list[str], limit: int = 1_000_000) -> list[int]:
    pieces = Pieces(limit)
    for row, text in enumerate(texts):
        pieces.add(row, text)
    found = list(pieces.counts(o200k_base().sizes(pieces.text.decode())))
    assert [row for row, _ in found] == list(range(len(texts)))
    return [tokens for _, tokens in found]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=20))
def test_the_tokens_of_the_events_add_up_to_those_of_the_text(texts: list[str]) -> None:
    assert sum(counts(texts)) == o200k_base().count("".join(texts))


def test_one_token_an_event_is_counted_as_one_each() -> None:
    assert counts(["Check", " the", " hold", " timer", "."]) == [1, 1, 1, 1, 1]


def test_a_token_belongs_to_the_event_that_completed_it() -> None:
    assert counts(["Ch", "eck the ", "hold"]) == [0, 2, 1]
    assert o200k_base().count("Check the hold") == 3


def test_a_character_cut_into_two_events_is_no_trouble() -> None:
    assert sum(counts(["\U0001f468\u200d", "\U0001f469"])) == o200k_base().count(
        "\U0001f468\u200d\U0001f469"
    )


def test_text_beyond_the_limit_is_estimated_at_the_rate_of_the_rest() -> None:
    words = [" timer"] * 100
    found = counts(words, limit=60)
    assert found[:10] == [1] * 10
    assert sum(found) == pytest.approx(100, abs=1)


def test_without_any_counted_text_the_estimate_is_a_token_for_four_bytes() -> None:
    assert sum(counts(["abcd"] * 10, limit=0)) == 10


@pytest.mark.parametrize(
    ("vocabulary", "model", "source"),
    [
        ("o200k_base", "gpt-4o-mini-2024-07-18", "o200k_base"),
        ("o200k_base", "openai/gpt-oss-120b", "o200k_base"),
        ("o200k_base", "o4-mini", "o200k_base"),
        ("o200k_base", "gpt-4-0613", "estimate"),
        ("o200k_base", "llama-3.1-8b", "estimate"),
        ("o200k_base", None, "estimate"),
        (None, "gpt-4o", "estimate"),
    ],
)
def test_only_models_of_this_vocabulary_are_counted_not_estimated(
    vocabulary: str | None, model: str | None, source: str
) -> None:
    assert count_source(vocabulary, model) == source


def corrected(estimates: list[int], usage: int | None) -> tuple[list[int], str]:
    events, how = correct(array("I", estimates), usage)
    return list(events), how


def test_a_stream_of_one_token_an_event_is_seen_as_one() -> None:
    assert corrected([1, 2, 1, 0, 1, 1, 1, 1], 8) == ([1] * 8, "one-each")
    assert corrected([1, 1, 1, 1, 1, 2], 9) == ([1] * 6, "one-each")  # 3 tokens without text


def test_events_of_several_tokens_are_scaled_to_the_sum_that_usage_says() -> None:
    assert corrected([10, 20, 10], 50) == ([12, 26, 12], "scaled")
    assert corrected([2, 3], 4) == ([2, 2], "scaled")


def test_usage_that_is_missing_or_about_something_else_changes_nothing() -> None:
    for usage in (None, 0, 10**15, 2):
        assert corrected([10, 20, 10], usage) == ([10, 20, 10], "counted")
    assert corrected([], 5) == ([], "counted")
    assert corrected([0, 0], 1) == ([0, 0], "counted")


@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.floats(0.5, 2.0))
def test_scaled_events_add_up_to_usage_and_none_is_negative(
    estimates: list[int], factor: float
) -> None:
    usage = round(sum(estimates) * factor)
    events, how = corrected(estimates, usage)
    assert min(events) >= 0
    if how == "scaled":
        assert sum(events) == usage
