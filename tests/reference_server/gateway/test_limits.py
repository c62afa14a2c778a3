"""Token buckets, with time handed in."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.gateway.limits import Cost, Limits, LocalLimits

T = TypeVar("T")
SECOND = 1_000_000_000


def do(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Clock:
    def __init__(self) -> None:
        self.ns = 5

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_minutes_worth_goes_at_once_and_then_one_each_interval(clock: Clock) -> None:
    store, limits = LocalLimits(clock), Limits(requests_per_minute=6)
    for left in range(5, -1, -1):
        decision = do(store.take("a", limits, Cost(requests=1)))
        assert decision.refused_by is None and decision.requests is not None
        assert decision.requests.remaining == left and decision.tokens is None
    refused = do(store.take("a", limits, Cost(requests=1)))
    assert refused.refused_by == "requests" and refused.retry_in_ns == 10 * SECOND
    clock.ns += 10 * SECOND - 1000
    assert do(store.take("a", limits, Cost(requests=1))).retry_in_ns == pytest.approx(1000, abs=2)
    clock.ns += 1002
    assert do(store.take("a", limits, Cost(requests=1))).refused_by is None


def test_each_key_has_its_own_buckets(clock: Clock) -> None:
    store, limits = LocalLimits(clock), Limits(requests_per_minute=1)
    for key in ("a", "b"):
        assert do(store.take(key, limits, Cost(requests=1))).refused_by is None
    assert do(store.take("a", limits, Cost(requests=1))).refused_by == "requests"


def test_both_buckets_are_taken_from_or_neither(clock: Clock) -> None:
    store, limits = LocalLimits(clock), Limits(10, 100)
    assert do(store.take("a", limits, Cost(1, 80))).refused_by is None
    refused = do(store.take("a", limits, Cost(1, 30)))
    assert refused.refused_by == "tokens" and refused.retry_in_ns == 6 * SECOND
    assert refused.requests is not None and refused.requests.remaining == 9


def test_a_request_larger_than_the_bucket_is_told_never(clock: Clock) -> None:
    refused = do(LocalLimits(clock).take("a", Limits(None, 100), Cost(1, 101)))
    assert refused.refused_by == "tokens" and refused.retry_in_ns is None


def test_what_was_not_used_comes_back_and_what_was_used_beyond_is_owed(clock: Clock) -> None:
    store, limits = LocalLimits(clock), Limits(None, 60)
    do(store.take("a", limits, Cost(1, 50)))
    do(store.settle("a", limits, 30))
    decision = do(store.take("a", limits, Cost(1, 40)))
    assert decision.refused_by is None and decision.tokens is not None
    assert decision.tokens.remaining == 0
    do(store.settle("a", limits, -20))
    assert do(store.take("a", limits, Cost(1, 1))).retry_in_ns == 21 * SECOND


def test_a_bucket_never_holds_more_than_its_limit(clock: Clock) -> None:
    store, limits = LocalLimits(clock), Limits(None, 60)
    do(store.take("a", limits, Cost(1, 1)))
    do(store.settle("a", limits, 1000))
    clock.ns += 3600 * SECOND
    assert do(store.take("a", limits, Cost(1, 61))).refused_by == "tokens"
    assert do(store.take("a", limits, Cost(1, 60))).refused_by is None


def test_memory_is_bounded_whoever_calls(clock: Clock) -> None:
    store, limits = LocalLimits(clock, most_keys=2), Limits(requests_per_minute=1)
    for key in ("a", "b", "c"):
        do(store.take(key, limits, Cost(requests=1)))
    assert do(store.take("c", limits, Cost(requests=1))).refused_by == "requests"
    assert do(store.take("a", limits, Cost(requests=1))).refused_by is None


@given(
    limit=st.integers(1, 10_000),
    calls=st.lists(st.tuples(st.integers(0, 2 * SECOND), st.integers(1, 50)), max_size=200),
)
def test_no_pattern_of_calls_gets_more_than_the_limit_and_what_flowed_in(
    limit: int, calls: list[tuple[int, int]]
) -> None:
    clock = Clock()
    store, limits = LocalLimits(clock), Limits(None, limit)
    begun, granted = clock.ns, 0

    async def run() -> int:
        total = 0
        for wait_ns, tokens in calls:
            clock.ns += wait_ns
            decision = await store.take("a", limits, Cost(1, tokens))
            total += tokens if decision.refused_by is None else 0
        return total

    granted = asyncio.run(run())
    assert granted <= limit + limit * (clock.ns - begun) / (60 * SECOND) + 1e-6
