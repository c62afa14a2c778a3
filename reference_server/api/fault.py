"""Faults on request, to see what a client or a proxy makes of them.

`/promptpath/fault/status?status=503` answers with that status. `/promptpath/fault/break` streams
some events and then breaks off: `how=reset` with a TCP RST or RST_STREAM, `how=close` by closing
the connection, `how=truncate` in the middle of an event.
"""

from __future__ import annotations

from reference_server.api.errors import ApiError
from reference_server.api.events import EventStream
from reference_server.api.knobs import Knobs
from reference_server.api.service import Service, new_id, stream_headers
from reference_server.asgi import ClientGone, Exchange, Header


async def status(service: Service, exchange: Exchange) -> None:
    """Any error status, with Retry-After on request (`retry_after_s`)."""
    knobs = Knobs(exchange)
    code = knobs.count("status", 503, 400, 599)
    retry_after_s = knobs.count("retry_after_s", 0, 0, 86_400)
    knobs.finish()
    headers: tuple[Header, ...] = ()
    if retry_after_s:
        headers = ((b"retry-after", str(retry_after_s).encode()),)
    raise ApiError(code, "fault", "This error was asked for.", headers=headers)


async def break_off(service: Service, exchange: Exchange) -> None:
    """A stream of `events` events that never ends well. Raises ApiError 400, ClientGone."""
    knobs = Knobs(exchange)
    events = knobs.count("events", 3, 0, 1000)
    how = knobs.word("how", "reset", ("reset", "close", "truncate"))
    knobs.finish()
    await exchange.read_body(service.settings.max_body_bytes)
    await exchange.start(200, stream_headers())
    stream = EventStream(exchange, new_id("flt_"), True, service.send_log)
    for _ in range(events):
        await stream.event({"kind": "tick"}, "tick", name="tick")
    if how == "truncate":
        await stream.raw(b'event: tick\ndata: {"kind":"ti', "tick")
    await exchange.abort("reset" if how == "reset" else "close")
    raise ClientGone("broken off on request")
