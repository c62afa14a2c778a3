"""The request body between the wire and the application."""

from __future__ import annotations

import asyncio

import pytest

from reference_server.listen.body import InboundBody
from tests.virtual_time import VirtualTimeLoop, run


def test_pieces_come_in_order_and_the_last_says_so() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        taken: list[int] = []
        body = InboundBody(60, taken.append)
        body.feed(b"ab", wire_bytes=5)
        body.feed(b"c")
        assert body.waiting_bytes == 3
        assert await body.receive() == {"type": "http.request", "body": b"ab", "more_body": True}
        body.end()
        assert await body.receive() == {"type": "http.request", "body": b"c", "more_body": False}
        assert (taken, body.waiting_bytes) == ([5, 1], 0)

    run(scenario)


def test_an_end_that_comes_later_is_told_once_then_only_the_disconnect() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        body = InboundBody(60, lambda size: None)
        loop.call_later(5, body.end)
        assert await body.receive() == {"type": "http.request", "body": b"", "more_body": False}
        loop.call_later(100, body.disconnect)
        assert await body.receive() == {"type": "http.disconnect"}
        assert loop.time() == pytest.approx(105)
        assert await body.receive() == {"type": "http.disconnect"}

    run(scenario)


def test_what_came_before_the_client_left_is_still_given() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        body = InboundBody(60, lambda size: None)
        body.feed(b"x")
        body.disconnect()
        assert (await body.receive())["body"] == b"x"
        assert (await body.receive())["type"] == "http.disconnect"

    run(scenario)


def test_a_pause_that_is_too_long_is_a_disconnect() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        body = InboundBody(60, lambda size: None)
        loop.call_later(50, body.feed, b"x")
        await body.receive()
        assert (await body.receive())["type"] == "http.disconnect"
        assert loop.time() == pytest.approx(110)
        assert body.timed_out and not body.complete

    run(scenario)


def test_receive_can_be_cancelled_and_called_again() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        body = InboundBody(60, lambda size: None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await body.receive()
        body.feed(b"x")
        assert (await body.receive())["body"] == b"x"

    run(scenario)
