"""The deterministic origin: an OpenAI-like stream at a fixed cadence, and the log of what it sent.

    python -m benchmarks.origin --events 400 --gap-ms 5 --log FILE

Prints its port. For every request one NDJSON line: when the connection was accepted, when the
request was whole, and for each event when it was sent and at which byte of the TCP stream it ends
(so that a packet capture can be joined without looking into the payload, TLS or not). Times are
CLOCK_MONOTONIC, taken just before the write. It shares no code with the tool or its server.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import signal
import socket
import ssl
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness import run_first

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"x-accel-buffering: no\r\ntransfer-encoding: chunked\r\n\r\n"
)
_READ_BYTES = 65536
_WAITERS = 4
"""Threads that wait for a connection: starting one when it is there would add 0.1 ms to what a
client is charged with (measured). A run has two connections at most."""


class Channel:
    """The server's side of one connection; counts the bytes it puts on the wire."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        self._sock = sock
        self.sent = 0
        self._tls: ssl.SSLObject | None = None
        if context is not None:
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
            self._handshake(self._tls)

    def _handshake(self, tls: ssl.SSLObject) -> None:
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self._put(self._outgoing.read())
                self._take()
                continue
            self._put(self._outgoing.read())
            return

    def _take(self) -> bytes:
        data = self._sock.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the client closed")
        if self._tls is not None:
            self._incoming.write(data)
        return data

    def _put(self, data: bytes) -> None:
        self._sock.sendall(data)
        self.sent += len(data)

    def recv(self) -> bytes:
        """Some bytes of the request."""
        if self._tls is None:
            return self._take()
        while True:
            try:
                data = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                self._take()
                continue
            if not data:  # close_notify
                raise ConnectionError("the client closed")
            return data

    def send(self, data: bytes) -> int:
        """Send in one write; when that began."""
        if self._tls is not None:
            self._tls.write(data)
            data = self._outgoing.read()
        at_ns = time.monotonic_ns()
        self._put(data)
        return at_ns


@dataclass(slots=True)
class Record:
    """What happened to one request."""

    accepted_ns: int
    request_ns: int = 0
    headers_ns: int = 0
    events: list[tuple[int, int]] = field(default_factory=list)
    """(sent_ns, end offset in the TCP stream), one a content event."""


def event(index: int) -> bytes:
    """One content event as a chunk: about 150 bytes, the size of a chat completion's delta."""
    delta = {"index": 0, "delta": {"content": f" t{index:06d}"}, "finish_reason": None}
    document = {"id": "bench", "object": "chat.completion.chunk", "choices": [delta]}
    return chunk(json.dumps(document, separators=(",", ":")))


def chunk(data: str) -> bytes:
    """An SSE event in a chunk of its own."""
    body = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(body), body)


def sleep_until(deadline_ns: int) -> None:
    """Sleep to an absolute time; a SCHED_FIFO process has no timer slack."""
    while (left_ns := deadline_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / 1e9)


def read_request(channel: Channel) -> bool:
    """Read one request with a Content-Length, or none; False at the end of the connection."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            data += channel.recv()
        head, _, body = data.partition(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        while len(body) < length:
            body += channel.recv()
    except (ConnectionError, ssl.SSLError):
        return False
    return True


def play(channel: Channel, record: Record, options: argparse.Namespace) -> None:
    """Answer one request: the head at once, the first event after the TTFT, the rest in step."""
    record.headers_ns = channel.send(_HEAD)
    due_ns = record.request_ns + int(options.ttft_ms * 1e6)
    gap_ns = int(options.gap_ms * 1e6)
    # In clear text the chunk's CRLF comes after the event; a TLS record is read whole or not.
    after = 0 if options.cert else 2
    for index in range(options.events):
        if gap_ns or not index:
            sleep_until(due_ns + index * gap_ns)
        at_ns = channel.send(event(index))
        record.events.append((at_ns, channel.sent - after))
    finish: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
    channel.send(chunk(json.dumps({"id": "bench", "choices": [finish]})))
    channel.send(chunk("[DONE]") + b"0\r\n\r\n")


def serve(sock: socket.socket, accepted_ns: int, options: argparse.Namespace, tls: Any) -> None:
    """One connection: requests until the client closes."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        channel = Channel(sock, tls)
        while read_request(channel):
            record = Record(accepted_ns, time.monotonic_ns())
            try:
                play(channel, record, options)
            finally:
                write_log(options.log, record)
    except (OSError, ssl.SSLError):
        pass
    finally:
        sock.close()


def wait_for_clients(listener: socket.socket, options: argparse.Namespace, tls: Any) -> None:
    """One connection after the other."""
    while True:
        sock, _ = listener.accept()
        serve(sock, time.monotonic_ns(), options, tls)


_log_lock = threading.Lock()


def write_log(path: str, record: Record) -> None:
    """Append one line; after the stream, so that no disk stands between two events."""
    line = {
        "accepted_ns": record.accepted_ns,
        "request_ns": record.request_ns,
        "headers_ns": record.headers_ns,
        "events": record.events,
    }
    with _log_lock, open(path, "a") as log:
        log.write(json.dumps(line) + "\n")


def die_with_parent() -> None:
    """SIGKILL when the harness dies (prctl(2), PR_SET_PDEATHSIG): no orphan may run SCHED_FIFO."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.origin")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--log", required=True)
    parser.add_argument("--events", type=int, default=400)
    parser.add_argument("--gap-ms", type=float, default=5.0, help="0: as fast as the client reads")
    parser.add_argument("--ttft-ms", type=float, default=200.0)
    parser.add_argument("--cert")
    parser.add_argument("--key")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Listen on a free port, print it, serve until killed."""
    options = parse(arguments)
    die_with_parent()
    tls = None
    if options.cert:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(options.cert, options.key)
        tls.set_alpn_protocols(["http/1.1"])
    listener = socket.create_server((options.host, 0))
    print(listener.getsockname()[1], flush=True)
    if options.gap_ms:
        run_first()  # not without pauses: it would take a core from everybody
    gc.disable()
    waiters = [
        threading.Thread(target=wait_for_clients, args=(listener, options, tls), daemon=True)
        for _ in range(_WAITERS)
    ]
    for waiter in waiters:
        waiter.start()
    for waiter in waiters:
        waiter.join()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main(sys.argv[1:])
