"""HTTP/1.x, the client's side: h11 is the state machine, `wire.http` the vocabulary.

What h11 does not say and this module adds: which protocol came instead of HTTP, where a chunk
begins when its size line and its bytes arrive apart, how big it is, and that bytes came behind the
end of a response.
"""

from __future__ import annotations

import h11

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.names import MARK_EXCESS_BYTES, MARK_FRAMING_CONFLICT
from promptpath.model.redact import redact_text
from promptpath.model.stamp import Stamp
from promptpath.wire.http import (
    Broken,
    Control,
    Data,
    End,
    Head,
    Headers,
    HttpEvent,
    HttpRequest,
    Informational,
    Trailers,
)

MAX_HEAD_BYTES = 65_536
"""Longest head, trailer section or chunk size line. RFC 9112, section 2.3 leaves the limit to the
receiver; this is hyper-h2's default for a decoded header list, so both versions refuse alike."""

_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
_LEAD = b"HTTP/"


class H1Connection:
    """One HTTP/1.1 connection, sans-IO (`wire.http.HttpConnection`). Streams are numbered 1, 2 ...
    in order of the requests. Hostile bytes end in a `Broken` event, never in an exception."""

    version = "1.1"

    def __init__(self) -> None:
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._out: list[bytes] = []
        self._method = ""
        self._stream = 0
        self._awaiting = False
        """A request is out and its response is not whole."""
        self._lead: bytes | None = b""
        """The response's first bytes while they may still be HTTP; None once that is settled."""
        self._in_chunk = False
        self._chunk_size: int | None = None
        self._framing = "none"
        self._tunnel: bytearray | None = None
        self._excess = False
        self._closed = False

    # --- sending --------------------------------------------------------------------------------

    def request(self, request: HttpRequest) -> int:
        """Queue a request; its number, counted from 1. Raises MeasureError (stage request) when a
        response is still due, the connection is closing, or a header or the target is not HTTP."""
        if self._stream and not self.reusable():
            raise MeasureError(
                "the connection cannot take another request",
                stage=Stage.REQUEST.value,
                code="connection-used",
                expected="a whole response with keep-alive before it",
            )
        try:
            if self._stream:
                self._h11.start_next_cycle()
            self._queue(request)
        except (h11.ProtocolError, UnicodeEncodeError) as error:
            raise MeasureError(
                "the request cannot be written as HTTP/1.1",
                stage=Stage.REQUEST.value,
                code="invalid-request",
                expected="header names and values without line breaks, a target without spaces",
                where=f"{request.method} over HTTP/1.1",
                hint="look at the -H options and the URL's path",
            ) from error
        self._stream += 1
        self._method = request.method
        self._awaiting = True
        self._lead = b""
        return self._stream

    def _queue(self, request: HttpRequest) -> None:
        host = request.target if request.method == "CONNECT" else request.authority
        headers = [("Host", host), *request.headers]
        if request.body or request.method in _BODY_METHODS:
            headers.append(("Content-Length", str(len(request.body))))
        head = h11.Request(
            method=request.method.encode("latin-1"),
            target=request.target.encode("latin-1"),
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers],
        )
        pieces = [self._h11.send(head)]
        if request.body:
            pieces.append(self._h11.send(h11.Data(data=request.body)))
        pieces.append(self._h11.send(h11.EndOfMessage()))
        self._out += [piece for piece in pieces if piece]

    def data_to_send(self) -> bytes:
        """Everything queued; HTTP/1.1 has no flow control of its own."""
        out, self._out = b"".join(self._out), []
        return out

    def request_sent(self, stream: int) -> bool:
        """All bytes of that request were handed out."""
        return 0 < stream <= self._stream and not self._out

    def stalled(self, stream: int) -> str | None:
        """Never: HTTP/1.1 leaves flow control to TCP."""
        return None

    def reusable(self) -> bool:
        """The response is whole, both sides keep the connection, and nothing came behind it."""
        return (
            not self._closed
            and not self._excess
            and self._h11.our_state is h11.DONE
            and self._h11.their_state is h11.DONE
        )

    # --- receiving ------------------------------------------------------------------------------

    def receive(self, data: bytes, stamp: Stamp) -> list[HttpEvent]:
        """What these bytes completed; body bytes come out at once, chunk whole or not."""
        if not data or self._closed:
            return []
        if self._tunnel is not None:
            self._tunnel += data
            return []
        if not self._awaiting:
            return self._note_excess(len(data), stamp)
        if self._lead is not None:
            start = self._lead + data[:24]
            self._lead = start[: len(_LEAD)]
            if not _LEAD.startswith(self._lead):
                return [self._not_http(start, stamp)]
            if len(self._lead) == len(_LEAD):
                self._lead = None
        self._h11.receive_data(data)
        return self._drain(stamp)

    def receive_eof(self, stamp: Stamp) -> list[HttpEvent]:
        """End for an until-close body, Broken (`eof`) within a message, else nothing."""
        if self._closed or self._tunnel is not None:
            return []
        if not self._awaiting:
            self._closed = True
            return []
        if self._lead is not None:
            came = "only the start of a response" if self._lead else "no byte of a response"
            return [self._broken(f"the peer closed after {came}", "eof", stamp)]
        self._h11.receive_data(b"")
        events = self._drain(stamp)
        self._closed = True
        return events

    def tunnel_bytes(self) -> bytes:
        """After a 2xx answer to CONNECT: bytes that came behind its head, which belong to the
        protocol in the tunnel. Empty otherwise; each byte is given once."""
        taken = bytes(self._tunnel or b"")
        if self._tunnel is not None:
            self._tunnel.clear()
        return taken

    def _drain(self, stamp: Stamp) -> list[HttpEvent]:
        events: list[HttpEvent] = []
        while self._awaiting:
            try:
                event = self._h11.next_event()
            # ValueError: a length of more digits than int() takes (CPython: 4,300)
            except (h11.ProtocolError, ValueError) as error:
                events.append(self._explain(error, stamp))
                break
            if isinstance(event, h11.InformationalResponse):
                headers = _headers(event)
                events.append(
                    Informational(
                        stream=self._stream, status=event.status_code, headers=headers, stamp=stamp
                    )
                )
            elif isinstance(event, h11.Response):
                events += self._on_head(event, stamp)
            elif isinstance(event, h11.Data):
                events.append(self._on_data(event, stamp))
            elif isinstance(event, h11.EndOfMessage):
                events += self._on_end(event, stamp)
            else:
                break
        return events

    def _on_head(self, event: h11.Response, stamp: Stamp) -> list[HttpEvent]:
        if not event.http_version.startswith(b"1."):
            # RFC 9110, 2.5: another major version is another syntax; h11 takes any.
            version = event.http_version.decode("ascii")
            return [
                self._broken(
                    f"a status line of HTTP/{version}; expected HTTP/1.1", "malformed", stamp
                )
            ]
        headers = _headers(event)
        tunnel = self._method == "CONNECT" and 200 <= event.status_code < 300
        self._framing = "none" if tunnel else _framing(self._method, event.status_code, headers)
        events: list[HttpEvent] = [
            Head(
                stream=self._stream,
                status=event.status_code,
                reason=event.reason.decode("latin-1"),
                version=event.http_version.decode("ascii"),
                headers=headers,
                framing=self._framing,
                stamp=stamp,
            )
        ]
        names = {name for name, _ in headers}
        if not tunnel and {"transfer-encoding", "content-length"} <= names:
            detail = {"fields": ["transfer-encoding", "content-length"], "kept": self._framing}
            events.append(
                Control(name=MARK_FRAMING_CONFLICT, stamp=stamp, detail=detail, stream=self._stream)
            )
        if tunnel:
            self._awaiting = False
            self._tunnel = bytearray(self._h11.trailing_data[0])
            events.append(End(stream=self._stream, stamp=stamp))
        return events

    def _on_data(self, event: h11.Data, stamp: Stamp) -> Data:
        data = bytes(event.data)
        chunked = self._framing == "chunked"
        # h11 drops `chunk_start` when the size line came alone: what follows an end is a start.
        start = chunked and not self._in_chunk
        if start:
            left = _bytes_left_in_chunk(self._h11)
            self._chunk_size = None if left is None else left + len(data)
        self._in_chunk = chunked and not event.chunk_end
        return Data(
            stream=self._stream,
            data=data,
            stamp=stamp,
            frame_start=start,
            frame_end=chunked and event.chunk_end,
            frame_size=self._chunk_size if chunked else None,
        )

    def _on_end(self, event: h11.EndOfMessage, stamp: Stamp) -> list[HttpEvent]:
        self._awaiting = False
        self._in_chunk = False
        events: list[HttpEvent] = []
        if event.headers:
            events.append(Trailers(stream=self._stream, headers=_headers(event), stamp=stamp))
        events.append(End(stream=self._stream, stamp=stamp))
        behind = len(self._h11.trailing_data[0])
        return events + (self._note_excess(behind, stamp) if behind else [])

    # --- what went wrong ------------------------------------------------------------------------

    def _note_excess(self, size: int, stamp: Stamp) -> list[HttpEvent]:
        """Bytes that answer no request: RFC 9112, section 6.3 forbids to take them for a response
        (a Content-Length that is too small, or a 408 on an idle connection). Told once."""
        first, self._excess = not self._excess, True
        if not first:
            return []
        return [
            Control(
                name=MARK_EXCESS_BYTES,
                stamp=stamp,
                detail={"bytes": size},
                stream=self._stream or None,
            )
        ]

    def _not_http(self, start: bytes, stamp: Stamp) -> Broken:
        what = f"the peer sent {name_protocol(start)}; expected a status line, HTTP/1.1 200 OK"
        return self._broken(what, "malformed", stamp)

    def _explain(self, error: Exception, stamp: Stamp) -> Broken:
        if getattr(error, "error_status_hint", None) == 431:
            what = f"a head, trailer section or chunk size line of more than {MAX_HEAD_BYTES} bytes"
            return self._broken(what, "too-large", stamp)
        closed = self._h11.trailing_data[1]
        if closed:
            return self._broken(f"the peer closed within a message: {error}", "eof", stamp)
        return self._broken(f"not HTTP/1.1: {error}", "malformed", stamp)

    def _broken(self, what: str, code: str, stamp: Stamp) -> Broken:
        self._awaiting = False
        self._closed = True
        stream = self._stream or None
        return Broken(stream=stream, what=redact_text(what, limit=200), code=code, stamp=stamp)


def _headers(event: h11.InformationalResponse | h11.Response | h11.EndOfMessage) -> Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)


def _framing(method: str, status: int, headers: Headers) -> str:
    """How the end of the body is told (RFC 9112, section 6.3)."""
    names = {name for name, _ in headers}
    if method == "HEAD" or status in (204, 304):
        return "none"
    if "transfer-encoding" in names:
        return "chunked"
    return "content-length" if "content-length" in names else "until-close"


def _bytes_left_in_chunk(connection: h11.Connection) -> int | None:
    """h11 keeps the chunk's size to itself; None should a later h11 hold it elsewhere."""
    left = getattr(getattr(connection, "_reader", None), "_bytes_in_chunk", None)
    return left if isinstance(left, int) else None


def name_protocol(start: bytes) -> str:
    """What bytes that are no HTTP/1.x response look like, in printable words for a person."""
    if len(start) >= 2 and 0x14 <= start[0] <= 0x18 and start[1] == 3:
        kind = "a TLS alert" if start[0] == 0x15 else "a TLS record"
        return f"{kind} (this port speaks TLS)"
    if len(start) >= 4 and start[3] == 4 and start[:2] == b"\0\0":
        return "an HTTP/2 SETTINGS frame (this port speaks HTTP/2 only)"
    shown = redact_text(start[:24].decode("latin-1"), limit=60)
    if start.lstrip().startswith((b"<", b"{", b"[")):
        return f"a body without a head, as HTTP/0.9 does ({shown!r})"
    if start.startswith(b"SSH-"):
        return f"an SSH banner ({shown!r})"
    return f"bytes that are no HTTP ({shown!r})"
