"""`GET /EVENTS/GAP_MS`: events with their designed time, as an ASGI application for any server.

`python -m benchmarks.h3_app CERTIFICATE KEY` serves it with our listener until standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import sys

from reference_server.asgi import Exchange, Receive, Scope, Send
from reference_server.clock import monotonic_ns, sleep_until
from reference_server.listen.quic_setup import quic_setup
from reference_server.listen.server import Listener, tls_context
from reference_server.settings import ListenSettings

_PAD = "x" * 110
"""Makes an event as long as a chat completion's chunk, some 200 bytes."""


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """ASGI 3, without lifespan."""
    if scope["type"] != "http":
        raise ValueError("only http")
    exchange = Exchange(scope, receive, send, monotonic_ns)
    events, gap_ms = (int(part) for part in exchange.path.strip("/").split("/"))
    await exchange.start(200, [(b"content-type", b"text/event-stream")])
    due_ns = monotonic_ns()
    for seq in range(events):
        due_ns += gap_ms * 1_000_000
        await sleep_until(due_ns, monotonic_ns)
        fields = {"seq": seq, "due_ns": due_ns, "pad": _PAD}

        def render(sent_ns: int, fields: dict[str, object] = fields) -> bytes:
            return b"event: tick\ndata: %b\n\n" % json.dumps(fields | {"sent_ns": sent_ns}).encode()

        await exchange.write(render)
    await exchange.end()


async def _serve(certificate: str, key: str) -> None:
    settings = ListenSettings(http3=True)
    tls, quic = tls_context(certificate, key, settings), quic_setup(certificate, key, settings)
    listener = Listener(app, settings, tls, quic=quic)
    await listener.start()
    sys.stdout.write(json.dumps({"port": listener.port}) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await listener.stop(grace_s=0)


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:3]))
