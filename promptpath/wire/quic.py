"""QUIC, the client's side: aioquic is the state machine, told the time and handed datagrams.

What this module does itself, because aioquic cannot or hides it: our own clock in nanoseconds, the
packet log (`wire.quic_log`), exceptions that a peer's bytes raise (a certificate whose names
service_identity cannot read), stateless resets, and certificates left to the caller to judge: its
own check would read the trust store in the middle of the handshake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TextIO

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent
from aioquic.tls import SessionTicket

from promptpath.model.redact import redact_text
from promptpath.model.units import NS_PER_S, Ns
from promptpath.wire.quic_log import PacketLogger

H3_ALPN: Final = "h3"
"""RFC 9114, section 3.1."""
INITIAL_RTT_S: Final = 0.333
"""RFC 9002, section 6.2.2: where nothing is known. aioquic assumes 0.1 s, which sends every Initial
twice over a path of 300 ms."""
WINDOW_BYTES: Final = 16 * 1_048_576
"""Receive window of each stream and of the connection, as `wire.h2.WINDOW_BYTES` and for its
reasons."""
IDLE_S: Final = 600.0
"""What we allow of silence; the lower of the two peers' values counts (RFC 9000, 10.1). High, so
that it is the server's that shows."""
VERSIONS: Final = {0x00000001: "v1", 0x6B3343CF: "v2"}
"""RFC 9000, section 15; RFC 9369, section 3.1."""
CRYPTO_ERROR: Final = 0x100
"""RFC 9000, section 20.1: 0x0100 plus the TLS alert."""
BAD_CERTIFICATE: Final = 42
CERT_NONE: Final = 0
"""ssl.CERT_NONE: the caller judges the certificate. Its signature aioquic checks in any case."""
_RESET_BYTES: Final = 21
"""The least a stateless reset has (RFC 9000, 10.3): 5 bytes and a token of 16."""
_PEER: Final = ("peer", 0)
"""aioquic wants an address; our socket has one peer alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuicSettings:
    """What makes a connection different from another one."""

    server_name: str
    """For SNI; an IP literal sends none (RFC 6066, section 3)."""
    alpn: tuple[str, ...] = (H3_ALPN,)
    keylog: TextIO | None = None
    ticket: SessionTicket | None = None
    """Of an earlier connection: offered for resumption and, where it allows, early data."""
    versions: tuple[int, ...] = (0x00000001, 0x6B3343CF)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuicClose:
    """How the connection ended."""

    by_peer: bool
    code: int
    application: bool
    """The code is HTTP/3's (RFC 9114, 8.1), not QUIC's (RFC 9000, 20)."""
    reason: str
    """As the far side says, printable."""
    how: str
    """close | idle | stateless-reset | no-common-version | malformed."""


class QuicWire:
    """One QUIC connection, sans-IO: instants are run time on the monotonic clock, in ns."""

    def __init__(self, settings: QuicSettings) -> None:
        self.tickets: list[SessionTicket] = []
        self._logger = PacketLogger()
        self.log = self._logger.log
        configuration = QuicConfiguration(
            alpn_protocols=list(settings.alpn),
            idle_timeout=IDLE_S,
            initial_rtt=INITIAL_RTT_S,
            max_data=WINDOW_BYTES,
            max_stream_data=WINDOW_BYTES,
            quic_logger=self._logger,
            secrets_log_file=settings.keylog,
            server_name=settings.server_name,
            session_ticket=settings.ticket,
            supported_versions=list(settings.versions),
            original_version=settings.versions[0],
            verify_mode=CERT_NONE,
        )
        self.quic = QuicConnection(
            configuration=configuration, session_ticket_handler=self.tickets.append
        )
        self._now_ns: Ns = 0
        self.epoch_ns: Ns = 0
        """Added to every instant handed in and taken off every one handed out: what a warm request
        moves, for run time begins anew while the connection goes on."""
        self._connected = False
        self.handshake: HandshakeCompleted | None = None
        self.closed: QuicClose | None = None

    # -- driving ---------------------------------------------------------------------------------

    def connect(self, now_ns: Ns) -> None:
        """Make the first flight; once, later calls do nothing."""
        if self._connected:
            return
        self._connected = True
        self.quic.connect(_PEER, self._at(now_ns))

    def receive(self, datagram: bytes, now_ns: Ns) -> list[QuicEvent]:
        """What this datagram brought. A peer's bytes never raise."""
        if self.closed is not None:
            return []
        dropped = self.log.counts.dropped
        try:
            self.quic.receive_datagram(datagram, _PEER, self._at(now_ns))
        except Exception as error:  # whatever a library of aioquic's raises on hostile bytes
            self.log.settle()
            self._end(False, 0, "malformed", f"{type(error).__name__}: {error}")
            return []
        self.log.settle()
        if (event := self.quic._close_event) is not None:
            # aioquic tells it only after draining, three probe timeouts later.
            self._terminated(event)
        if self.log.counts.dropped > dropped and self._is_stateless_reset(datagram):
            self._end(True, 0, "stateless-reset", "")
        return self.events()

    def events(self) -> list[QuicEvent]:
        """Everything aioquic has to tell."""
        found: list[QuicEvent] = []
        while (event := self.quic.next_event()) is not None:
            if isinstance(event, HandshakeCompleted):
                self.handshake = event
            elif isinstance(event, ConnectionTerminated):
                self._terminated(event)
            found.append(event)
        return found

    def datagrams(self, now_ns: Ns) -> list[bytes]:
        """What is to be sent now."""
        return [data for data, _ in self.quic.datagrams_to_send(self._at(now_ns))]

    def timer_ns(self) -> Ns | None:
        """When `timer` is to be called, if nothing comes before."""
        at = self.quic.get_timer()
        return None if at is None else round(at * NS_PER_S) - self.epoch_ns

    def timer(self, now_ns: Ns) -> list[QuicEvent]:
        """The instant has come: probes, losses, the idle timeout."""
        if self.closed is None:
            self.quic.handle_timer(self._at(now_ns))
        return self.events()

    def close(self, code: int, reason: str = "", *, application: bool = True) -> None:
        """Queue CONNECTION_CLOSE."""
        # aioquic tells the two kinds apart by whether a frame type is given (RFC 9000, 19.19).
        self.quic.close(code, None if application else 0, reason)

    # -- what is known ---------------------------------------------------------------------------

    @property
    def version(self) -> str:
        """v1 | v2 | hexadecimal."""
        number = self.quic._version or 0
        return VERSIONS.get(number, f"0x{number:08x}")

    @property
    def chain(self) -> tuple[bytes, ...]:
        """The server's certificates as DER, the leaf first; () where it sent none (resumption)."""
        from cryptography.hazmat.primitives.serialization import Encoding

        tls = self.quic.tls
        leaf = tls._peer_certificate
        if leaf is None:
            return ()
        return tuple(
            each.public_bytes(Encoding.DER) for each in (leaf, *tls._peer_certificate_chain)
        )

    @property
    def cipher(self) -> str | None:
        """By its IANA name."""
        suite = self.quic.tls.key_schedule.cipher_suite if self.quic.tls.key_schedule else None
        return None if suite is None else f"TLS_{suite.name}"

    def all_sent(self) -> bool:
        """Every byte and FIN that streams were given has gone into a packet at least once."""
        return all(
            not len(stream.sender._pending) and not stream.sender._pending_eof
            for stream in self.quic._streams.values()
        )

    def blocked(self, stream_id: int) -> str | None:
        """Whose window an upload waits for: the "stream"'s, the "connection"'s, nobody's."""
        stream = self.quic._streams.get(stream_id)
        if stream is None or not len(stream.sender._pending):
            return None
        if stream.sender.next_offset >= stream.max_stream_data_remote:
            return "stream"
        if self.quic._remote_max_data_used >= self.quic._remote_max_data:
            return "connection"
        return None

    # -- endings ---------------------------------------------------------------------------------

    def _terminated(self, event: ConnectionTerminated) -> None:
        if self.closed is not None:
            return
        if event.reason_phrase == "Idle timeout":
            self._end(False, 0, "idle", "")
        elif event.reason_phrase == "Could not find a common protocol version":
            self._end(False, 0, "no-common-version", "")
        else:
            by_peer = "connection_close" in {
                frame for row in self.log.rows if row.what == "received" for frame in row.frames
            }
            application = event.frame_type is None
            self._end(by_peer, event.error_code, "close", event.reason_phrase, application)

    def _is_stateless_reset(self, datagram: bytes) -> bool:
        """RFC 9000, 10.3.1: the last 16 bytes are a token we know; aioquic does not look."""
        if len(datagram) < _RESET_BYTES:
            return False
        known = [self.quic._peer_cid, *self.quic._peer_cid_available]
        return any(cid.stateless_reset_token == datagram[-16:] for cid in known)

    def _end(
        self, by_peer: bool, code: int, how: str, reason: str, application: bool = False
    ) -> None:
        self.closed = QuicClose(
            by_peer=by_peer,
            code=code,
            application=application,
            reason=redact_text(reason, limit=200),
            how=how,
        )

    def _at(self, now_ns: Ns) -> float:
        """Seconds for aioquic. Stamps of the kernel lie before what we read of the clock: time
        never goes back in there."""
        self._now_ns = max(self._now_ns, now_ns + self.epoch_ns)
        self.log.now_ns = now_ns + self.epoch_ns
        return self._now_ns / NS_PER_S
