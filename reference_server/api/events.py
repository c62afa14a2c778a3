"""Writing a server-sent event stream (WHATWG HTML 9.2), one write an event, stamped on request."""

from __future__ import annotations

import json
from typing import Any

from reference_server.asgi import Exchange, Render
from reference_server.engine.generation import Step
from reference_server.sendlog import SendLog
from reference_server.trips import Trip

_encode = json.JSONEncoder(separators=(",", ":")).encode
"""Made once: `json.dumps` with separators makes an encoder for each event."""


class EventStream:
    """Events of one response. With `stamped` each carries the contract's `promptpath` field.

    `seq` counts every event that carries data from 0, so that a lost or joined one shows.
    """

    def __init__(
        self,
        exchange: Exchange,
        request_id: str,
        stamped: bool,
        send_log: SendLog | None,
        trip: Trip | None = None,
    ) -> None:
        self._exchange = exchange
        self._request_id = request_id
        self._stamped = stamped
        self._send_log = send_log
        self._trip = trip
        self._seq = 0

    async def event(
        self, payload: dict[str, Any], kind: str, name: str | None = None, step: Step | None = None
    ) -> None:
        """Send one event. `kind` is for the send log only; `name` is the `event:` field."""
        seq = self._seq
        self._seq += 1
        head = b"" if name is None else b"event: %b\n" % name.encode()
        document = _encode(payload).encode()
        if not self._stamped:
            whole = b"%bdata: %b\n\n" % (head, document)
            await self._write(lambda sent_ns: whole, kind, seq, step)
            return
        numbers = {
            "seq": seq,
            "step": step.step if step else None,
            "batch": step.batch if step else None,
        }
        stamp = _encode(numbers).encode()
        front = b'%bdata: %b,"promptpath":%b,"sent_ns":' % (head, document[:-1], stamp[:-1])
        await self._write(lambda sent_ns: b"%b%d}}\n\n" % (front, sent_ns), kind, seq, step)

    async def raw(self, data: bytes, kind: str) -> None:
        """Send bytes as they are: a comment or an end marker."""
        await self._write(lambda sent_ns: data, kind, None)

    async def end(self) -> None:
        """End the response and write the log."""
        await self._exchange.end()

    async def _write(
        self, render: Render, kind: str, seq: int | None, step: Step | None = None
    ) -> None:
        log, trip = self._send_log, self._trip

        def noted(sent_ns: int) -> bytes:
            data = render(sent_ns)
            if log is not None:
                log.note(self._request_id, kind, seq, sent_ns, len(data))
            if trip is not None:
                trip.note(kind, seq, sent_ns, len(data), step)
            return data

        await self._exchange.write(noted)
