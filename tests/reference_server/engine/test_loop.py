"""The engine's loop: what it tells, and how requests end."""

from __future__ import annotations

import pytest

from reference_server.engine.loop import Computed, Started
from reference_server.engine.plan import StepPlan, StepResult
from reference_server.engine.scheduler import SchedulerLimits
from tests.reference_server.engine.fake_model import expected
from tests.reference_server.engine.rig import Rig

MS = 1_000_000


def test_a_request_is_started_computed_and_given_token_by_token() -> None:
    rig = Rig(limits=SchedulerLimits(token_budget=20))
    rig.submit("a", range(30), 2)
    rig.drain()
    assert rig.events[0] == Started("a", 0, 0)
    assert [e for e in rig.events if isinstance(e, Computed)] == [
        Computed("a", 1, 1, 0, 20, 0, MS),
        Computed("a", 2, 1, 20, 10, MS, 2 * MS),
        Computed("a", 3, 1, 30, 1, 2 * MS, 3 * MS),
    ]
    first, last = rig.outs("a")
    tokens = expected(range(30), 2)
    assert (first.token_id, last.token_id) == tuple(tokens)
    assert (first.sampled_ns, first.step, first.batch, first.finish) == (2 * MS, 2, 1, None)
    assert (last.sampled_ns, last.finish) == (3 * MS, "length")
    assert first.text == f"{tokens[0]} " and last.text == f"{tokens[1]} ."
    assert rig.loop.idle and not rig.loop.turn()


def test_a_stop_token_ends_the_answer_and_has_no_text() -> None:
    tokens = expected(range(5), 6)
    rig = Rig()
    rig.submit("a", range(5), 50, stop_ids=(tokens[3],))
    rig.drain()
    at = tokens.index(tokens[3])
    assert rig.tokens("a") == tokens[: at + 1]
    assert rig.outs("a")[-1].text == "." and rig.outs("a")[-1].finish == "stop"


def test_a_stop_text_ends_the_answer_and_frees_its_blocks() -> None:
    tokens = expected(range(5), 6)
    rig = Rig()
    rig.submit("a", range(5), 50, stop=(str(tokens[2]),))
    rig.drain()
    at = tokens.index(tokens[2])
    assert rig.tokens("a") == tokens[: at + 1]
    assert rig.outs("a")[-1].finish == "stop" and rig.pool.used == 0


def test_a_stop_text_on_the_last_token_is_a_stop() -> None:
    tokens = expected(range(5), 1)
    rig = Rig()
    rig.submit("a", range(5), 1, stop=(str(tokens[0]),))
    rig.drain()
    (last,) = rig.outs("a")
    assert (last.text, last.finish, last.stop_text) == ("", "stop", str(tokens[0]))


def test_a_cancelled_request_is_in_no_further_step_and_its_blocks_are_free() -> None:
    rig = Rig()
    rig.submit("a", range(40), 50)
    rig.submit("b", range(40, 80), 3)
    rig.loop.turn()
    rig.loop.cancel("a")
    held = rig.pool.used
    assert held == 3  # 40 tokens of the other.
    rig.drain()
    assert all(len(plan.items) == 1 for plan in rig.model.plans[1:])
    assert rig.failures() == {"a": "cancelled"}
    assert rig.tokens("b") == expected(range(40, 80), 3)
    rig.loop.cancel("a")
    rig.loop.cancel("unknown")
    assert rig.failures() == {"a": "cancelled"}


def test_a_request_cancelled_in_the_queue_never_runs() -> None:
    rig = Rig(limits=SchedulerLimits(max_running=1))
    rig.submit("a", [1], 2)
    rig.submit("b", [2], 2)
    rig.loop.turn()
    rig.loop.cancel("b")
    rig.drain()
    assert rig.tokens("b") == [] and rig.failures() == {"b": "cancelled"}


def test_who_waits_beyond_the_deadline_is_told_and_who_runs_is_not() -> None:
    rig = Rig(limits=SchedulerLimits(max_running=1))
    rig.submit("a", [1], 10, deadline_ns=2 * MS)
    rig.submit("b", [2], 1, deadline_ns=3 * MS)
    rig.submit("c", [3], 1, deadline_ns=100 * MS)
    rig.drain()
    assert rig.failures() == {"b": "queue_timeout"}
    assert len(rig.tokens("a")) == 10 and len(rig.tokens("c")) == 1


def test_a_model_that_fails_fails_every_request_and_is_reported() -> None:
    class Broken:
        block_count = 64

        def execute(self, plan: StepPlan) -> StepResult:
            raise RuntimeError("out of memory")

    rig = Rig(runner=Broken())
    rig.submit("a", [1], 2)
    rig.submit("b", [2], 2)
    with pytest.raises(RuntimeError, match="out of memory"):
        rig.loop.turn()
    assert rig.failures() == {"a": "engine_error", "b": "engine_error"}
    assert rig.loop.idle and rig.pool.used == 0


def test_all_are_told_when_the_engine_stops() -> None:
    rig = Rig(limits=SchedulerLimits(max_running=1))
    rig.submit("a", [1], 2)
    rig.submit("b", [2], 2)
    rig.loop.turn()
    rig.loop.fail_all("engine_stopped")
    assert rig.failures() == {"a": "engine_stopped", "b": "engine_stopped"}
    assert rig.loop.idle
