"""What the HTTP/3 listener does wrong on purpose (`--quic-fault`), for tests of clients."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MOST = 1_000_000


class FaultError(ValueError):
    """No such fault, or a value that it cannot have; the text says which there are."""


@dataclass(frozen=True, slots=True)
class QuicFaults:
    """Which faults are on. `after` counts the pieces of answers that a connection has sent."""

    version_negotiation: bool = False
    """Speak QUIC version 2 only, so that whoever begins with 1 gets Version Negotiation."""
    retry_loop: bool = False
    """Answer every Initial with a Retry, whatever token it carries."""
    lost_initial: int = 0
    """So many datagrams that would begin a connection are not heard, of each connection."""
    amplification: bool = False
    """A certificate chain of more than three times what the client sent first: the answer stops at
    the anti-amplification limit (RFC 9000 section 8.1)."""
    hello_retry: bool = False
    """A TLS HelloRetryRequest for a group of which the client sent no key share."""
    half_handshake: bool = False
    """Nothing is heard after the client's first datagram, so that no handshake ends."""
    stop_sending: int | None = None
    """STOP_SENDING with this code for every request whose body has not ended with its head."""
    goaway_after: int | None = None
    """Stop in order after so many pieces: GOAWAY, running answers end, CONNECTION_CLOSE."""
    stateless_reset_after: int | None = None
    """Forget the connection after so many pieces; its packets are then answered with a reset."""
    silent_after: int | None = None
    """Neither send nor hear anything after so many pieces."""
    close_after: int | None = None
    """CONNECTION_CLOSE after so many pieces, with `close_code` and `close_reason`."""
    close_code: int = 0x102
    """H3_INTERNAL_ERROR unless told."""
    close_reason: str = ""
    close_transport: bool = False
    """The close is one of QUIC (type 0x1c), not one of HTTP/3 (0x1d)."""

    @property
    def counts(self) -> bool:
        """A fault waits for a number of pieces."""
        after = (self.goaway_after, self.stateless_reset_after, self.silent_after, self.close_after)
        return any(each is not None for each in after)


_SWITCHES = ("version-negotiation", "retry-loop", "amplification", "hello-retry", "half-handshake")
_COUNTS = {
    "lost-initial": "lost_initial",
    "goaway": "goaway_after",
    "stateless-reset": "stateless_reset_after",
    "silent": "silent_after",
}
USAGE = (
    "version-negotiation, retry-loop, lost-initial=N, amplification, hello-retry, half-handshake, "
    "stop-sending=CODE, goaway=N, stateless-reset=N, silent=N, close=N[:CODE[:REASON]], "
    "transport-close=N[:CODE[:REASON]]"
)


def read_faults(words: list[str]) -> QuicFaults | None:
    """The faults that a command line names; None of none. Raises FaultError."""
    values: dict[str, object] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in _SWITCHES and not value:
            values[name.replace("-", "_")] = True
        elif name in _COUNTS:
            values[_COUNTS[name]] = _number(word, value)
        elif name == "stop-sending":
            values["stop_sending"] = _number(word, value)
        elif name in ("close", "transport-close"):
            values |= _close(word, name, value)
        else:
            raise FaultError(f"{word!r} is none of {USAGE}")
    return QuicFaults(**values) if values else None  # type: ignore[arg-type]


def _close(word: str, name: str, value: str) -> dict[str, object]:
    after, _, rest = value.partition(":")
    code, _, reason = rest.partition(":")
    close: dict[str, object] = {
        "close_after": _number(word, after),
        "close_reason": reason,
        "close_transport": name == "transport-close",
    }
    if code:
        close["close_code"] = _number(word, code)
    return close


def _number(word: str, text: str) -> int:
    if re.fullmatch(r"0[xX][0-9a-fA-F]{1,8}|[0-9]{1,7}", text) is None:
        raise FaultError(f"{word!r} needs a number")
    number = int(text, 0) if text[:2] in ("0x", "0X") else int(text)
    if number > _MOST:
        raise FaultError(f"{word!r}: {_MOST} at most")
    return number


def bulky_certificate() -> object:
    """A certificate of some 8,000 bytes that leads nowhere; clients leave it aside."""
    import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ballast")])
    now = datetime.datetime.now(datetime.UTC)
    ballast = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.25.1"), bytes(8000))
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=7))
        .add_extension(ballast, critical=False)
        .sign(key, hashes.SHA256())
    )
