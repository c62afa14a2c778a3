"""What a failed QUIC handshake means: each cause with its own code, and what to do about it."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.names import TLS_CHAIN
from promptpath.model.plan import Plan
from promptpath.model.redact import printable
from promptpath.model.units import Ns, format_duration
from promptpath.probe.certificates import certificate_code, describe
from promptpath.probe.dial import explain_errno
from promptpath.probe.link import Closed
from promptpath.probe.quic import QuicLink
from promptpath.probe.recorder import Recorder
from promptpath.probe.tls_failure import CERTIFICATE_HINTS
from promptpath.wire.quic import CRYPTO_ERROR
from promptpath.wire.tls_names import ALERTS, name_of

if TYPE_CHECKING:
    from promptpath.probe.quic_dial import QuicOptions

NO_ALPN: Final = 120
"""The TLS alert no_application_protocol (RFC 7301, 3.2)."""
TRY_TCP: Final = "trace --http auto goes over TCP; a UDP answer from this port is what HTTP/3 needs"
TRANSPORT_ERRORS: Final = {
    0x00: "NO_ERROR",
    0x01: "INTERNAL_ERROR",
    0x02: "CONNECTION_REFUSED",
    0x03: "FLOW_CONTROL_ERROR",
    0x04: "STREAM_LIMIT_ERROR",
    0x05: "STREAM_STATE_ERROR",
    0x06: "FINAL_SIZE_ERROR",
    0x07: "FRAME_ENCODING_ERROR",
    0x08: "TRANSPORT_PARAMETER_ERROR",
    0x09: "CONNECTION_ID_LIMIT_ERROR",
    0x0A: "PROTOCOL_VIOLATION",
    0x0B: "INVALID_TOKEN",
    0x0C: "APPLICATION_ERROR",
    0x0D: "CRYPTO_BUFFER_EXCEEDED",
    0x0E: "KEY_UPDATE_ERROR",
    0x0F: "AEAD_LIMIT_REACHED",
    0x10: "NO_VIABLE_PATH",
    0x11: "VERSION_NEGOTIATION_ERROR",
}
"""RFC 9000, section 20.1; RFC 9368, section 10.2."""


def _error(
    what: str, code: str, where: str, hint: str | None, expected: str | None = None
) -> MeasureError:
    return MeasureError(
        what,
        stage=Stage.QUIC.value,
        code=code,
        expected=expected or "a QUIC handshake over UDP",
        where=f"quic, {where}",
        hint=hint,
    )


def no_address() -> MeasureError:
    """Nothing to connect to."""
    return _error("there is no address to connect to", "no-address", "no peer", "check -4 and -6")


def place(peer: tuple[str, int]) -> str:
    """The peer in words."""
    return f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"


def cannot_send(error: OSError, peer: tuple[str, int], plan: Plan) -> MeasureError:
    """The system has no route, or no such source."""
    code, what = explain_errno(error, plan.source_address, plan.interface)
    return _error(what, code, place(peer), "check the network, -4, -6, --source")


def refused(error: str, peer: tuple[str, int]) -> MeasureError:
    """An ICMP message came instead of an answer."""
    return _error(
        f"UDP to this port is rejected (ICMP: {printable(error).lower()})",
        "udp-rejected",
        place(peer),
        f"nothing listens on that UDP port, or a firewall rejects it; {TRY_TCP}",
    )


def timed_out(link: QuicLink, peer: tuple[str, int], waited_ns: Ns, name: str) -> MeasureError:
    """No handshake in time: silence, or an answer that stopped."""
    counts = link.http.quic.log.counts
    waited = format_duration(waited_ns)
    if not counts.received and counts.dropped:
        what = f"{counts.dropped} datagrams came that are no QUIC of this connection"
        return _error(what, "not-quic", place(peer), "check that this UDP port speaks QUIC")
    if not counts.received:
        return _error(
            f"no answer to {link.initials_out} QUIC Initials within {waited}",
            "udp-silent",
            place(peer),
            f"a firewall may drop UDP silently, or no QUIC server is there; {TRY_TCP}",
        )
    if "retry" in link.steps and link.http.quic.log.unexpected:
        return _error(
            f"{name} answers every Initial with a Retry, also those that carry its token",
            "retry-loop",
            place(peer),
            "its Retry tokens are not honoured: servers behind one address may not share a key",
            expected="a handshake after the first Retry (RFC 9000, 8.1.2)",
        )
    return _error(
        f"the QUIC handshake with {name} stopped after {counts.received} packets from the server",
        "connect-timeout",
        place(peer),
        "large datagrams may be lost on the path (MTU), or the server is overloaded",
    )


def unconfirmed(name: str) -> MeasureError:
    """Our side is done, and nothing says that the server had our last flight."""
    return _error(
        f"{name} never confirmed the QUIC handshake",
        "unconfirmed",
        name,
        "its first flight came, what we answered is lost or ignored: look at the path to it",
        expected="HANDSHAKE_DONE, or an ACK of a 1-RTT packet (RFC 9001, 4.1.2)",
    )


def ended(
    link: QuicLink, peer: tuple[str, int], closed: Closed, options: QuicOptions
) -> MeasureError:
    """The connection ended within the handshake."""
    close = link.http.quic.closed
    where = place(peer)
    if close is None:
        return _error(f"the peer is gone: {printable(closed.detail)}", "closed", where, None)
    if close.how == "no-common-version":
        offers = ", ".join(f"0x{each:08x}" for each in link.http.quic.log.server_versions[:16])
        return _error(
            f"the server speaks no QUIC version of ours (it offers {offers or 'none'})",
            "version",
            where,
            "use --http auto",
            expected="QUIC v1 or v2",
        )
    if close.how == "idle":
        return timed_out(link, peer, 0, options.name)
    if CRYPTO_ERROR <= close.code <= CRYPTO_ERROR + 0xFF and not close.application:
        return _alert(close.code - CRYPTO_ERROR, close.by_peer, close.reason, where)
    name = TRANSPORT_ERRORS.get(close.code, f"{close.code:#x}")
    who = "the server closed" if close.by_peer else "we closed"
    reason = f": {close.reason}" if close.reason else ""
    return _error(
        f"{who} the QUIC connection during the handshake ({name}{reason})",
        "closed" if close.by_peer else "handshake-protocol",
        where,
        "see the server's log",
    )


def _alert(number: int, by_peer: bool, reason: str, where: str) -> MeasureError:
    alert = name_of(ALERTS, number)
    more = f" ({reason})" if reason else ""
    if number == NO_ALPN:
        return _error(
            f"the server speaks QUIC, but not HTTP/3 (TLS alert {alert}{more})",
            "alpn-mismatch",
            where,
            "use --http auto",
            expected="ALPN h3",
        )
    who = "the server refused" if by_peer else "we refused the server's handshake"
    return _error(f"{who} with the TLS alert {alert}{more}", "alert", where, "see RFC 8446, 6.2")


def untrusted(error: ssl.SSLCertVerificationError | None, name: str) -> MeasureError:
    """The certificate is not to be trusted."""
    code = "cert-invalid" if error is None else certificate_code(error.verify_code)
    message = "it sent none" if error is None else printable(error.verify_message)
    return _error(
        f"the certificate of {name} is not to be trusted: {message}",
        code,
        f"TLS handshake with {name}",
        CERTIFICATE_HINTS[code],
    )


def record_chain(recorder: Recorder, link: QuicLink) -> None:
    """The chain as a fact; parses certificates, so not on the critical path."""
    chain = link.http.quic.chain
    if chain:
        recorder.reported(TLS_CHAIN, describe(chain), link.span)
