"""What gateway and engine process say to each other: MessagePack with a length in front.

Both ends are of the same version and on the same host, so their clocks are one.
"""

from __future__ import annotations

import msgspec

from reference_server.engine.generation import CacheStats, FailureCode, GenerationRequest
from reference_server.engine.loop import Computed, Failed, Started, TokenOut
from reference_server.engine.scheduler import SchedulerLimits
from reference_server.settings import ModelSettings

HEAD_BYTES = 4
"""The length of a frame, big-endian, stands in so many bytes."""
LARGEST_FRAME = 256 * 1024 * 1024
"""A longer one is an error of ours: a prompt of 8,192 tokens takes 40 kB."""


class Start(msgspec.Struct, tag=True, frozen=True):
    """Gateway: the first frame; load this model."""

    model: ModelSettings
    limits: SchedulerLimits


class Submit(msgspec.Struct, tag=True, frozen=True):
    """Gateway: queue this request."""

    request: GenerationRequest


class Cancel(msgspec.Struct, tag=True, frozen=True):
    """Gateway: this request is not wanted any more."""

    request_id: str
    code: FailureCode


class Ready(msgspec.Struct, tag=True, frozen=True):
    """Engine: the model is in memory."""

    context_tokens: int
    """Longest prompt and answer together; less than the model's where the KV pool is smaller."""
    kv_blocks: int
    load_ms: float
    threads: str
    """How many compute, for a person."""
    kernels: str
    """What computes, for a person."""


class NotReady(msgspec.Struct, tag=True, frozen=True):
    """Engine: it will never be ready; the process ends."""

    problem: str


class Load(msgspec.Struct, frozen=True):
    """The engine's state after a step."""

    running: int
    waiting: int
    cache: CacheStats


class Turn(msgspec.Struct, tag=True, frozen=True):
    """Engine: all that one step changed, in the order of the fields."""

    load: Load
    started: list[Started]
    computed: list[Computed]
    tokens: list[TokenOut]
    failed: list[Failed]


ToEngine = Start | Submit | Cancel
FromEngine = Ready | NotReady | Turn

_encoder = msgspec.msgpack.Encoder()
to_engine: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
from_engine: msgspec.msgpack.Decoder[FromEngine] = msgspec.msgpack.Decoder(FromEngine)


def encode(frame: ToEngine | FromEngine) -> bytes:
    """The frame with its length in front."""
    body = _encoder.encode(frame)
    return len(body).to_bytes(HEAD_BYTES, "big") + body


def length_of(head: bytes) -> int:
    """The length that a frame's head says; raises ValueError for one that is too large."""
    length = int.from_bytes(head, "big")
    if length > LARGEST_FRAME:
        raise ValueError(f"a frame of {length} bytes")
    return length
