"""First come, first served over slots and a bounded queue."""

from __future__ import annotations

import pytest

from reference_server.engine.slots import QueueFull, SlotScheduler


def test_requests_run_in_the_order_in_which_they_came() -> None:
    slots = SlotScheduler(slots=2, queue_limit=3)
    for name in "abcd":
        slots.submit(name)
    assert slots.start_ready() == ["a", "b"]
    assert (slots.running, slots.waiting) == (2, 2)
    slots.release("b")
    assert slots.start_ready() == ["c"]


def test_one_more_than_slots_and_queue_hold_is_refused() -> None:
    slots = SlotScheduler(slots=1, queue_limit=1)
    slots.submit("a")
    slots.start_ready()
    slots.submit("b")
    with pytest.raises(QueueFull):
        slots.submit("c")
    slots.release("a")
    slots.submit("c")
    assert slots.waiting == 2


def test_without_a_queue_a_free_slot_still_takes_a_request() -> None:
    slots = SlotScheduler(slots=1, queue_limit=0)
    slots.submit("a")
    assert slots.start_ready() == ["a"]
    with pytest.raises(QueueFull):
        slots.submit("b")


def test_a_waiting_request_can_be_taken_out_and_an_unknown_one_is_no_error() -> None:
    slots = SlotScheduler(slots=1, queue_limit=5)
    for name in "abc":
        slots.submit(name)
    slots.start_ready()
    slots.release("b")
    slots.release("nobody")
    slots.release("a")
    assert slots.start_ready() == ["c"]


@pytest.mark.parametrize(("slots", "queue_limit"), [(0, 1), (1, -1)])
def test_sizes_that_make_no_sense_are_refused(slots: int, queue_limit: int) -> None:
    with pytest.raises(ValueError, match="slots"):
        SlotScheduler(slots, queue_limit)
