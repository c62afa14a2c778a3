"""The queue before the batch."""

from __future__ import annotations

import pytest

from reference_server.engine.plan import BLOCK_TOKENS
from reference_server.engine.sequence import Sequence
from reference_server.engine.slots import QueueFull
from reference_server.engine.waiting import WaitingQueue
from tests.reference_server.engine.rig import request


def _sequence(number: int, priority: int = 0, deadline_ns: int | None = None) -> Sequence:
    asked = request(str(number), [1], 1, priority=priority, deadline_ns=deadline_ns)
    return Sequence(number, asked, BLOCK_TOKENS, 1)


def test_the_order_is_priority_then_arrival() -> None:
    queue = WaitingQueue(10)
    for number, priority in ((0, 1), (1, 0), (2, 1), (3, -1)):
        queue.add(_sequence(number, priority), 0)
    assert [each.number for each in queue] == [3, 1, 0, 2]
    assert queue.first.number == 3


def test_free_places_are_not_counted_as_waiting() -> None:
    queue = WaitingQueue(1)
    queue.add(_sequence(0), free_places=1)
    queue.add(_sequence(1), free_places=1)
    with pytest.raises(QueueFull):
        queue.add(_sequence(2), free_places=1)


def test_who_was_preempted_comes_back_to_the_old_place_even_into_a_full_queue() -> None:
    queue = WaitingQueue(1)
    queue.add(_sequence(5), 0)
    queue.put_back(_sequence(2))
    assert [each.number for each in queue] == [2, 5]


def test_the_one_that_is_taken_out_is_that_one() -> None:
    queue = WaitingQueue(10)
    sequences = [_sequence(number, number % 2) for number in range(6)]
    for each in sequences:
        queue.add(each, 0)
    queue.remove(sequences[3])
    assert [each.number for each in queue] == [0, 2, 4, 1, 5]


def test_only_who_was_never_scheduled_can_be_late() -> None:
    queue = WaitingQueue(10)
    late, early, patient, preempted = (
        _sequence(number, deadline_ns=deadline) for number, deadline in enumerate((10, 11, None, 5))
    )
    preempted.scheduled_ns = 1
    for each in (late, early, patient, preempted):
        queue.put_back(each)
    assert queue.expired(10) == [late]
