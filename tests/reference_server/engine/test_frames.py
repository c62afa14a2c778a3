"""The frames between gateway and engine."""

from __future__ import annotations

import pytest

from reference_server.engine.frames import (
    HEAD_BYTES,
    LARGEST_FRAME,
    Cancel,
    FromEngine,
    Load,
    NotReady,
    Ready,
    Start,
    Submit,
    ToEngine,
    Turn,
    encode,
    from_engine,
    length_of,
    to_engine,
)
from reference_server.engine.generation import CacheStats, GenerationRequest
from reference_server.engine.loop import Computed, Failed, Started, TokenOut
from reference_server.engine.plan import SamplingParams
from reference_server.engine.scheduler import SchedulerLimits
from reference_server.settings import ModelSettings

REQUEST = GenerationRequest(
    request_id="req_1",
    prompt_tokens=3,
    max_tokens=9,
    prompt_ids=(1, 49151, 0),
    params=SamplingParams(0.7, 0.9, 40, 2**63 - 1, 5),
    stop=("\n\n", "END"),
    stop_ids=(2,),
    cache_salt="grüße",
    priority=-1,
    deadline_ns=10**18,
)
TO_ENGINE: list[ToEngine] = [
    Start(ModelSettings("/m.gguf", threads=2), SchedulerLimits(token_budget=7)),
    Submit(REQUEST),
    Cancel("req_1", "slow_reader"),
]
FROM_ENGINE: list[FromEngine] = [
    Ready(8192, 1024, 12.5, "1 thread", "float32"),
    NotReady("no model"),
    Turn(
        Load(1, 2, CacheStats(3, 4, 5, 6, 7)),
        [Started("a", 1, 16)],
        [Computed("a", 1, 2, 16, 9, 3, 4)],
        [TokenOut("a", 1, 2, 7, "é", 5, -0.5, ((7, -0.5), (8, -1.5)), "stop", "END")],
        [Failed("b", "queue_timeout")],
    ),
]


@pytest.mark.parametrize("frame", TO_ENGINE)
def test_what_the_gateway_says_arrives_as_it_was(frame: ToEngine) -> None:
    data = encode(frame)
    assert length_of(data[:HEAD_BYTES]) == len(data) - HEAD_BYTES
    assert to_engine.decode(data[HEAD_BYTES:]) == frame


@pytest.mark.parametrize("frame", FROM_ENGINE)
def test_what_the_engine_says_arrives_as_it_was(frame: FromEngine) -> None:
    assert from_engine.decode(encode(frame)[HEAD_BYTES:]) == frame


def test_a_length_beyond_the_limit_is_refused() -> None:
    assert length_of(LARGEST_FRAME.to_bytes(HEAD_BYTES, "big")) == LARGEST_FRAME
    with pytest.raises(ValueError, match="a frame of"):
        length_of((LARGEST_FRAME + 1).to_bytes(HEAD_BYTES, "big"))
