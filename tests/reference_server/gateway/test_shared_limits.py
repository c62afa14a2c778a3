"""Limits in a real Redis, shared by several processes, and what happens when it goes away."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reference_server.clock import monotonic_ns
from reference_server.gateway.limits import Cost, Limits, LimitsUnavailable, LocalLimits
from reference_server.gateway.redis_client import RedisDown, where
from reference_server.gateway.shared_limits import RedisLimits, WhenDown
from tests.peers.process import free_port
from tests.peers.redis import redis_server

pytestmark = pytest.mark.peer

LIMITS = Limits(600, 6000)
_HAMMER = """
import asyncio, json, sys
from reference_server.clock import monotonic_ns
from reference_server.gateway.limits import Cost, Limits, LocalLimits
from reference_server.gateway.shared_limits import RedisLimits

async def main():
    port, calls = sys.argv[1:]
    store = RedisLimits(f"redis://127.0.0.1:{port}/0", "refuse", LocalLimits(monotonic_ns),
                        monotonic_ns, print)
    granted = 0
    async def worker():
        nonlocal granted
        for _ in range(int(calls) // 8):
            decision = await store.take("k", Limits(600, 6000), Cost(1, 20))
            granted += decision.refused_by is None
    await asyncio.gather(*(worker() for _ in range(8)))
    await store.close()
    print(json.dumps(granted))
asyncio.run(main())
"""


def store(port: int, when_down: WhenDown = "refuse", said: list[str] | None = None) -> RedisLimits:
    say = (said if said is not None else []).append
    local = LocalLimits(monotonic_ns)
    return RedisLimits(f"redis://127.0.0.1:{port}/0", when_down, local, monotonic_ns, say)


@pytest.mark.slow
def test_four_processes_with_ten_times_the_load_get_exactly_the_limit(tmp_path: Path) -> None:
    with redis_server(tmp_path) as port:
        begun = time.monotonic()
        command = [sys.executable, "-c", _HAMMER, str(port), "752"]
        pipe = subprocess.PIPE
        processes = [subprocess.Popen(command, stdout=pipe, text=True) for _ in range(4)]
        granted = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
        elapsed_s = time.monotonic() - begun
    # 3,008 calls of 20 tokens: the bucket of 6,000 tokens holds 300 of them, and 5 flow in each s.
    assert 300 <= sum(granted) <= 300 + 5 * elapsed_s
    assert sum(granted) < 3008 / 4


def test_redis_gives_the_same_answers_as_memory(tmp_path: Path) -> None:
    async def both(port: int) -> None:
        shared, local = store(port), LocalLimits(lambda: 0)
        for cost in (Cost(1, 5000), Cost(1, 2000), Cost(1, 900), Cost(1, 7000)):
            one = await shared.take("a", LIMITS, cost)
            two = await local.take("a", LIMITS, cost)
            assert one.refused_by == two.refused_by
            assert one.tokens is not None and two.tokens is not None
            assert one.tokens.remaining == pytest.approx(two.tokens.remaining, abs=100)
        await shared.settle("a", LIMITS, 4000)
        decision = await shared.take("a", LIMITS, Cost(1, 4000))
        assert decision.refused_by is None
        await shared.close()

    with redis_server(tmp_path) as port:
        asyncio.run(both(port))


def test_one_limit_may_be_missing(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        shared = store(port)
        for _ in range(2):
            decision = await shared.take("a", Limits(2, None), Cost(1, 10**9))
            assert decision.refused_by is None
        assert (await shared.take("a", Limits(2, None), Cost(1, 1))).refused_by == "requests"
        await shared.close()

    with redis_server(tmp_path) as port:
        asyncio.run(scenario(port))


def test_a_redis_that_goes_in_flight_refuses_or_counts_locally_and_both_say_so(
    tmp_path: Path,
) -> None:
    refusing, counting = list[str](), list[str]()

    async def scenario(port: int) -> None:
        strict = store(port, "refuse", refusing)
        lenient = store(port, "allow-local", counting)
        with redis_server(tmp_path, port):
            for each in (strict, lenient):
                await each.start()
                assert not (await each.take("a", LIMITS, Cost(1, 1))).local
        for _ in range(3):
            with pytest.raises(LimitsUnavailable):
                await strict.take("a", LIMITS, Cost(1, 1))
        local = Limits(requests_per_minute=2)
        decisions = [await lenient.take("b", local, Cost(1, 1)) for _ in range(3)]
        assert [each.local for each in decisions] == [True] * 3
        assert decisions[2].refused_by == "requests"  # Never silently unlimited.
        with redis_server(tmp_path, port):
            async with asyncio.timeout(10):
                while (await lenient.take("a", LIMITS, Cost(1, 1))).local:
                    await asyncio.sleep(0.05)
        for each in (strict, lenient):
            await each.close()

    asyncio.run(scenario(free_port()))
    assert len(refusing) == 1 and "refused with 503" in refusing[0]
    assert len(counting) == 2 and "counts for itself" in counting[0] and "is back" in counting[1]


def test_a_redis_that_is_down_at_the_start_is_an_error_unless_local_counting_is_allowed() -> None:
    said = list[str]()

    async def scenario() -> None:
        with pytest.raises(RedisDown):
            await store(free_port()).start()
        lenient = store(free_port(), "allow-local", said)
        await lenient.start()

    asyncio.run(scenario())
    assert len(said) == 1


def test_no_password_is_ever_said() -> None:
    assert where("redis://user:secret@host:7000/1") == "host:7000"
    assert where("redis://[broken") == "the given URL"
    with pytest.raises(RedisDown, match="redis://HOST") as error:
        store_of = RedisLimits("http://user:secret@x", "refuse", LocalLimits(int), int, print)
        del store_of
    assert "secret" not in str(error.value)
