"""The engine's end of the socket. The whole process is tested in engine/test_remote.py."""

from __future__ import annotations

import socket
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reference_server.compute.worker import Channel
from reference_server.engine.frames import (
    HEAD_BYTES,
    Cancel,
    NotReady,
    ToEngine,
    encode,
    from_engine,
)

FRAMES: list[ToEngine] = [Cancel(f"req_{n}", "cancelled") for n in range(5)]
DATA = b"".join(encode(frame) for frame in FRAMES)


@given(cuts=st.lists(st.integers(0, len(DATA)), max_size=8))
def test_frames_are_whole_however_they_arrive(cuts: list[int]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(theirs)
        got: list[ToEngine] = []
        edges = sorted({0, len(DATA), *cuts})
        for start, end in pairwise(edges):
            ours.sendall(DATA[start:end])
            got += channel.frames(wait=False)
        assert got == FRAMES and not channel.closed


def test_a_closed_gateway_is_seen_after_the_frames_before_it() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(DATA + DATA[:7])
        channel = Channel(theirs)
        assert channel.frames(wait=True) == FRAMES
        assert channel.closed
        channel.send(NotReady("nobody hears this"))


def test_a_frame_of_ours_has_its_length_in_front() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Channel(theirs).send(NotReady("why"))
        data = ours.recv(1000)
        assert from_engine.decode(data[HEAD_BYTES:]) == NotReady("why")
