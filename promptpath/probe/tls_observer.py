"""Turns the handshake messages of one connection into marks and facts of the trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from promptpath.model.enums import Stage
from promptpath.model.names import (
    MARK_TLS_ACKED,
    MARK_TLS_MESSAGE,
    MARK_TLS_WIRE,
    TLS_ALERT,
    TLS_ALPN,
    TLS_ALPN_OFFERED,
    TLS_CIPHER,
    TLS_CLIENT_CERT_REQUESTED,
    TLS_GROUP,
    TLS_HELLO_RETRY,
    TLS_RESUMED,
    TLS_SIGNATURE,
    TLS_SNI,
    TLS_TICKET,
    TLS_VERSION,
)
from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp
from promptpath.probe.recorder import Recorder
from promptpath.wire.tls_messages import (
    Alert,
    Certificate,
    CertificateRequest,
    CertificateVerify,
    ClientHello,
    EncryptedExtensions,
    Message,
    MessageParser,
    NewSessionTicket,
    ServerHello,
    ServerKeyExchange,
    message_name,
    parse_alert,
)
from promptpath.wire.tls_records import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    MessageAssembler,
    TlsRecord,
)

MAX_MARKS: Final = 100
"""Messages marked per connection. A full handshake has at most 16 (RFC 8446 section 2 with
HelloRetryRequest and client certificate); the rest is room for tickets and key updates, so that a
server which sends nothing else cannot fill our memory."""

_TLS_KEYS: Final = "tls."
_DIRECTIONS: Final = {True: "sent", False: "received"}
_RECORD_NAMES: Final = {
    CHANGE_CIPHER_SPEC: "ChangeCipherSpec",
    ALERT: "alert",
    APPLICATION_DATA: "encrypted record",
}


@dataclass(slots=True)
class _Seen:
    """A message that waits to be read."""

    sent: bool
    content_type: int
    data: bytes
    stamp: Stamp | None
    """None: ours, and not written yet."""

    @property
    def name(self) -> str:
        if self.content_type == HANDSHAKE:
            return message_name(self.data)
        return _RECORD_NAMES[self.content_type]


class HandshakeObserver:
    """Gets every handshake message of one connection in order, and records it.

    Received messages carry the stamp of the record that completed them (`received_at`), ours that
    of the write their flight left in. Messages are kept as they come and read in `settle`: reading
    those of a handshake takes 0.3 ms (measured), which would lengthen the handshake they tell of.
    """

    def __init__(
        self, recorder: Recorder, *, stage: Stage, prefix: str, conn: int, quiet: bool = False
    ) -> None:
        """`quiet` records marks but no facts: for a second connection that only answers whether it
        can resume."""
        self._recorder = recorder
        self._stage = stage
        self._prefix = prefix
        self._conn = conn
        self._quiet = quiet
        self._parser = MessageParser()
        self._seen: list[_Seen] = []
        self._marks = 0
        self.span: int | None = None
        """The span marks and facts belong to."""
        self.received_at: Stamp | None = None
        """Stamp of the record that is being read."""
        self.last_received: str | None = None
        """Name of the server's last message."""
        self.client_hello: ClientHello | None = None
        self.server_hello: ServerHello | None = None
        """The last one; a HelloRetryRequest until the real one came."""
        self.alpn: str | None = None
        self.group: str | None = None
        self.signature: str | None = None
        self.chain: tuple[bytes, ...] = ()
        self.client_certificate_requested: bool | None = False
        """None: hidden from us (TLS 1.3 without the message hook)."""
        self.tickets = 0
        self.fatal_alert: Alert | None = None
        """The alert with which the server ended the connection."""

    def rebind(self, recorder: Recorder, conn: int) -> None:
        """Go on in another run: what comes from now on is recorded there."""
        self._recorder = recorder
        self._conn = conn
        self.span = None

    @property
    def tls13(self) -> bool:
        """Whether the server chose TLS 1.3."""
        return self.server_hello is not None and self.server_hello.version == "TLSv1.3"

    def message(self, sent: bool, content_type: int, data: bytes) -> None:
        """One whole handshake message, alert or ChangeCipherSpec, in the clear; or, as application
        data, a handshake record nobody could read for us (no message hook)."""
        if content_type != HANDSHAKE and content_type not in _RECORD_NAMES:
            return
        self._seen.append(_Seen(sent, content_type, data, None if sent else self.received_at))
        if len(self._seen) >= MAX_MARKS:
            self.settle()

    @property
    def has_unsent(self) -> bool:
        """Whether messages of ours wait for `written`."""
        return any(seen.stamp is None for seen in self._seen)

    def written(self, stamp: Stamp) -> str:
        """Our waiting messages were written at `stamp`; gives the flight's name: its last handshake
        message."""
        name = ""
        for seen in self._seen:
            if seen.stamp is None:
                seen.stamp = stamp
                name = seen.name
        return name

    def settle(self) -> None:
        """Read and record what has come and gone since."""
        if not self._seen:
            return
        seen_now, self._seen = self._seen, [seen for seen in self._seen if seen.stamp is None]
        for seen in seen_now:
            if seen.stamp is not None:
                self._settle_one(seen, seen.stamp)

    def _settle_one(self, seen: _Seen, stamp: Stamp) -> None:
        detail: dict[str, Json] = {}
        if seen.content_type == HANDSHAKE:
            message = self._parser.parse(seen.data)
            self._learn(message, seen.sent)
            detail = message.detail()
        elif seen.content_type == ALERT:
            alert = parse_alert(seen.data)
            if alert is None:
                detail = {"malformed": True}
            else:
                self._alert(alert, seen.sent)
                detail = {"level": alert.level, "description": alert.description}
        elif seen.content_type == APPLICATION_DATA and self.tls13:
            self.client_certificate_requested = self.client_certificate_requested or None
        row: dict[str, Json] = {
            "message": seen.name,
            "direction": _DIRECTIONS[seen.sent],
            "bytes": len(seen.data),
        }
        self._add(MARK_TLS_MESSAGE, stamp, row | detail)

    def flight(self, acked: bool, stamp: Stamp, message: str) -> None:
        """The last byte of a flight of ours left the machine, or was acknowledged."""
        self._add(MARK_TLS_ACKED if acked else MARK_TLS_WIRE, stamp, {"message": message})

    def fact(self, key: str, value: Json) -> None:
        """Record an observed fact, under this connection's prefix ("tls." or "proxy.tls.")."""
        if not self._quiet:
            self._record_fact(key, value)

    def summarize(self, *, offered: tuple[str, ...]) -> None:
        """Record what the messages of a handshake said, however it ended."""
        hello, server = self.client_hello, self.server_hello
        self.fact(TLS_ALPN_OFFERED, list(offered))
        if hello is not None:
            self.fact(TLS_SNI, hello.sni)
        if server is None:
            return
        self.fact(TLS_VERSION, server.version)
        self.fact(TLS_CIPHER, server.cipher)
        self.fact(TLS_GROUP, self.group)
        self.fact(TLS_SIGNATURE, self.signature)
        self.fact(TLS_ALPN, self.alpn)
        self.fact(TLS_CLIENT_CERT_REQUESTED, self.client_certificate_requested)

    def resumed(self, *, offered: bool, accepted: bool) -> None:
        """Record whether a session of before was offered and taken."""
        self._record_fact(TLS_RESUMED, {"offered": offered, "accepted": accepted})

    def _record_fact(self, key: str, value: Json) -> None:
        self._recorder.observed(self._prefix + key.removeprefix(_TLS_KEYS), value, self.span)

    def _learn(self, message: Message, sent: bool) -> None:
        if sent:
            if isinstance(message, ClientHello):
                self.client_hello = message
            return
        self.last_received = message.name
        match message:
            case ServerHello():
                self._learn_hello(message)
            case EncryptedExtensions():
                self.alpn = message.alpn
            case Certificate():
                self.chain = message.chain
            case CertificateRequest():
                self.client_certificate_requested = True
            case CertificateVerify():
                self.signature = message.signature
            case ServerKeyExchange():
                self.group, self.signature = message.group, message.signature
            case NewSessionTicket():
                self._ticket(message)

    def _learn_hello(self, hello: ServerHello) -> None:
        self.server_hello = hello
        if hello.name == "HelloRetryRequest":
            self.fact(TLS_HELLO_RETRY, {"group": hello.group})
        else:
            self.group, self.alpn = hello.group, hello.alpn

    def _ticket(self, ticket: NewSessionTicket) -> None:
        self.tickets += 1
        if self.tickets <= MAX_MARKS:
            value = {
                "lifetime_s": ticket.lifetime_s,
                "max_early_data_bytes": ticket.max_early_data_bytes,
            }
            self.fact(TLS_TICKET, value)

    def _alert(self, alert: Alert, sent: bool) -> None:
        # close_notify is how every good connection ends: a mark, but no fact to explain.
        if alert.description == "close_notify":
            return
        if not sent and alert.level != "warning":
            self.fatal_alert = alert
        if self._marks < MAX_MARKS:
            value = {"direction": _DIRECTIONS[sent], "level": alert.level}
            self.fact(TLS_ALERT, value | {"description": alert.description})

    def _add(self, name: str, stamp: Stamp, detail: dict[str, Json]) -> None:
        self._marks += 1
        if self._marks <= MAX_MARKS:
            self._recorder.mark(
                self._stage, name, stamp, span=self.span, conn=self._conn, detail=detail
            )


class ClearMessages:
    """Stands in for the message hook: reads the messages that cross the wire in the clear.

    TLS 1.2 shows everything but Finished, TLS 1.3 the two hellos (RFC 8446 section 2).
    """

    def __init__(self, observer: HandshakeObserver) -> None:
        self._observer = observer
        self._assemblers = {True: MessageAssembler(), False: MessageAssembler()}
        self._encrypted = {True: False, False: False}
        self._over = {True: False, False: False}

    def finish(self, *, sent: bool) -> None:
        """The handshake is over in this direction: its records are no messages any more."""
        self._over[sent] = True

    def record(self, record: TlsRecord, *, sent: bool) -> None:
        """One record of either direction, in order."""
        observer = self._observer
        if self._over[sent]:
            return
        if self._encrypted[sent] or record.content_type == APPLICATION_DATA:
            observer.message(sent, APPLICATION_DATA, record.data)
        elif record.content_type == HANDSHAKE:
            for message in self._assemblers[sent].feed(record.fragment):
                observer.message(sent, HANDSHAKE, message)
            observer.settle()
        else:
            observer.message(sent, record.content_type, record.fragment)
            # It means nothing in TLS 1.3 (RFC 8446 appendix D.4); in 1.2 all after it is secret.
            if record.content_type == CHANGE_CIPHER_SPEC and not observer.tls13:
                self._encrypted[sent] = True
