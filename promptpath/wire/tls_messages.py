"""Reads TLS handshake messages and alerts: what a tracer wants to know of each, nothing secret.

The formats of several messages depend on the version agreed, so a `MessageParser` sees one
connection's messages in order. Nothing is ever raised for far-side bytes: a message that cannot be
read keeps its name and size and is marked `malformed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from promptpath.model.redact import printable
from promptpath.model.rows import Json
from promptpath.wire.tls_names import (
    ALERTS,
    CIPHER_SUITES,
    GROUPS,
    HANDSHAKE_TYPES,
    SIGNATURE_SCHEMES,
    VERSIONS,
    name_of,
)

HELLO_RETRY_RANDOM: Final = bytes.fromhex(
    "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"
)
"""The ServerHello.random that makes it a HelloRetryRequest (RFC 8446 section 4.1.3)."""
MAX_LISTED: Final = 64
"""Longest list kept of a message. The longest honest ones are about 20 long (cipher suites and
signature schemes of OpenSSL 3.0's default ClientHello: measured 18 and 20)."""

_TLS13: Final = 0x0304
_NAMED_CURVE: Final = 3
"""ECCurveType named_curve (RFC 8422 section 5.4)."""
_EXT_SERVER_NAME: Final = 0
_EXT_GROUPS: Final = 10
_EXT_SIGNATURES: Final = 13
_EXT_ALPN: Final = 16
_EXT_PSK: Final = 41
_EXT_EARLY_DATA: Final = 42
_EXT_VERSIONS: Final = 43
_EXT_KEY_SHARE: Final = 51


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One handshake message; also the type of those whose content says nothing."""

    name: str
    """As the RFCs call it, for example ServerHello."""
    size: int
    """Bytes with the 4-byte header."""
    malformed: bool = False
    """Its content did not follow the RFC; the fields of its kind are missing."""

    def detail(self) -> dict[str, Json]:
        """Its fields as a mark carries them: JSON values, lists for tuples, no DER."""
        left_out = ("name", "size", "malformed", "chain")
        values = ((item.name, getattr(self, item.name)) for item in fields(self))
        detail = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values
            if name not in left_out
        }
        return detail | ({"malformed": True} if self.malformed else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHello(Message):
    """What we offered."""

    versions: tuple[str, ...]
    ciphers: tuple[str, ...]
    groups: tuple[str, ...]
    key_shares: tuple[str, ...]
    """Groups a key was sent for: any other costs a HelloRetryRequest."""
    signatures: tuple[str, ...]
    alpn: tuple[str, ...]
    sni: str | None
    psk: bool
    """A session of before is offered."""
    early_data: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerHello(Message):
    """What the server chose; with the name HelloRetryRequest, what it would rather have."""

    version: str
    cipher: str
    group: str | None
    """TLS 1.3 only."""
    psk: bool
    """The offered session was taken (TLS 1.3)."""
    alpn: str | None
    """TLS 1.2 only; TLS 1.3 has it in EncryptedExtensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptedExtensions(Message):
    """The rest of the server's choices (RFC 8446 section 4.3.1)."""

    alpn: str | None
    early_data: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRequest(Message):
    """The server asks for a client certificate."""

    signatures: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate(Message):
    """A certificate chain as sent, unverified."""

    chain: tuple[bytes, ...]
    """DER, the leaf first."""
    certificates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateVerify(Message):
    """The proof of the certificate's key (RFC 8446 section 4.4.3)."""

    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKeyExchange(Message):
    """TLS 1.2's ephemeral key (RFC 8422 section 5.4, RFC 5246 section 7.4.3)."""

    group: str | None
    signature: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSessionTicket(Message):
    """A ticket for the next connection (RFC 8446 section 4.6.1, RFC 5077 section 3.3)."""

    lifetime_s: int
    ticket_bytes: int
    max_early_data_bytes: int | None
    """How much early data it allows; None when it offers none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUpdate(Message):
    """New traffic keys (RFC 8446 section 4.6.3)."""

    update_requested: bool


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert in the clear (RFC 8446 section 6)."""

    level: str
    """warning | fatal, or the number."""
    description: str
    """As IANA names it."""


def parse_alert(data: bytes) -> Alert | None:
    """The alert, or None when these are not the two bytes of one."""
    if len(data) != 2:
        return None
    level = {1: "warning", 2: "fatal"}.get(data[0]) or str(data[0])
    return Alert(level, ALERTS.get(data[1]) or f"alert {data[1]}")


def message_name(data: bytes) -> str:
    """What the RFCs call the handshake message that begins with these bytes."""
    if len(data) < 4:
        return "unknown"
    if data[0] == 2 and data[6:38] == HELLO_RETRY_RANDOM:
        return "HelloRetryRequest"
    return HANDSHAKE_TYPES.get(data[0]) or f"handshake type {data[0]}"


class _MalformedError(Exception):
    """A length or a value inside a message is impossible."""


class _Reader:
    """Takes numbers and vectors off the front of a message; raises _MalformedError past its end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        end = self._at + size
        if end > len(self._data):
            raise _MalformedError
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def number(self, size: int) -> int:
        """A big-endian number of `size` bytes."""
        return int.from_bytes(self.take(size), "big")

    def vector(self, length_size: int) -> _Reader:
        """What a length of `length_size` bytes announces (RFC 8446 section 3.4)."""
        return _Reader(self.take(self.number(length_size)))

    def rest(self) -> bytes:
        """Everything left."""
        return self.take(len(self._data) - self._at)

    def numbers(self, size: int) -> Iterator[int]:
        """Everything left as numbers of `size` bytes."""
        while self:
            yield self.number(size)

    def extensions(self) -> dict[int, bytes]:
        """An extension block; absent (the message ends here) is empty, the first of two wins."""
        found: dict[int, bytes] = {}
        if not self:
            return found
        block = self.vector(2)
        while block:
            kind = block.number(2)
            found.setdefault(kind, block.vector(2).rest())
        return found


class MessageParser:
    """Parses one connection's handshake messages, in both directions, in their order."""

    def __init__(self) -> None:
        self._tls13 = False
        self._cipher = ""
        self._parsers: dict[int, Callable[[str, int, _Reader], Message]] = {
            1: _client_hello,
            2: self._server_hello,
            4: self._new_session_ticket,
            8: _encrypted_extensions,
            11: self._certificate,
            12: self._server_key_exchange,
            13: self._certificate_request,
            15: _certificate_verify,
            24: _key_update,
        }

    def parse(self, data: bytes) -> Message:
        """One whole message with its 4-byte header."""
        name = message_name(data)
        if len(data) < 4 or int.from_bytes(data[1:4], "big") != len(data) - 4:
            return Message(name=name, size=len(data), malformed=True)
        parser = self._parsers.get(data[0])
        if parser is None:
            return Message(name=name, size=len(data))
        try:
            return parser(name, len(data), _Reader(data[4:]))
        except _MalformedError:
            return Message(name=name, size=len(data), malformed=True)

    def _server_hello(self, name: str, size: int, body: _Reader) -> ServerHello:
        version = body.number(2)
        body.take(32)
        body.vector(1)
        cipher = body.number(2)
        body.take(1)
        extensions = body.extensions()
        if _EXT_VERSIONS in extensions:
            version = _Reader(extensions[_EXT_VERSIONS]).number(2)
        share = extensions.get(_EXT_KEY_SHARE)
        self._tls13 = version == _TLS13
        self._cipher = name_of(CIPHER_SUITES, cipher)
        return ServerHello(
            name=name,
            size=size,
            version=name_of(VERSIONS, version),
            cipher=self._cipher,
            group=None if share is None else name_of(GROUPS, _Reader(share).number(2)),
            psk=_EXT_PSK in extensions,
            alpn=_first(_alpn(extensions)),
        )

    def _certificate(self, name: str, size: int, body: _Reader) -> Certificate:
        if self._tls13:
            body.vector(1)
        entries = body.vector(3)
        chain: list[bytes] = []
        while entries:
            chain.append(entries.vector(3).rest())
            if self._tls13:
                entries.vector(2)
        kept = tuple(chain[:MAX_LISTED])
        return Certificate(name=name, size=size, chain=kept, certificates=len(chain))

    def _certificate_request(self, name: str, size: int, body: _Reader) -> CertificateRequest:
        if self._tls13:
            body.vector(1)
            schemes = _Reader(body.extensions().get(_EXT_SIGNATURES, b"\0\0")).vector(2)
        else:
            body.vector(1)
            schemes = body.vector(2)
        return CertificateRequest(
            name=name, size=size, signatures=_names(SIGNATURE_SCHEMES, schemes)
        )

    def _server_key_exchange(self, name: str, size: int, body: _Reader) -> ServerKeyExchange:
        group = None
        if "_ECDHE_" in self._cipher:
            if body.number(1) != _NAMED_CURVE:
                raise _MalformedError
            group = name_of(GROUPS, body.number(2))
            body.vector(1)
        elif "_DHE_" in self._cipher:
            group = f"dhe {8 * len(body.vector(2).rest())}"
            body.vector(2)
            body.vector(2)
        else:
            raise _MalformedError
        signature = name_of(SIGNATURE_SCHEMES, body.number(2))
        return ServerKeyExchange(name=name, size=size, group=group, signature=signature)

    def _new_session_ticket(self, name: str, size: int, body: _Reader) -> NewSessionTicket:
        lifetime_s = body.number(4)
        early = None
        if self._tls13:
            body.take(4)
            body.vector(1)
            ticket = body.vector(2).rest()
            data = body.extensions().get(_EXT_EARLY_DATA)
            early = None if data is None else _Reader(data).number(4)
        else:
            ticket = body.vector(2).rest()
        return NewSessionTicket(
            name=name,
            size=size,
            lifetime_s=lifetime_s,
            ticket_bytes=len(ticket),
            max_early_data_bytes=early,
        )


def _client_hello(name: str, size: int, body: _Reader) -> ClientHello:
    legacy_version = body.number(2)
    body.take(32)
    body.vector(1)
    ciphers = _names(CIPHER_SUITES, body.vector(2))
    body.vector(1)
    extensions = body.extensions()
    versions = extensions.get(_EXT_VERSIONS)
    return ClientHello(
        name=name,
        size=size,
        versions=(name_of(VERSIONS, legacy_version),)
        if versions is None
        else _names(VERSIONS, _Reader(versions).vector(1)),
        ciphers=ciphers,
        groups=_names(GROUPS, _listed(extensions, _EXT_GROUPS)),
        key_shares=_key_shares(_listed(extensions, _EXT_KEY_SHARE)),
        signatures=_names(SIGNATURE_SCHEMES, _listed(extensions, _EXT_SIGNATURES)),
        alpn=_alpn(extensions),
        sni=_server_name(_listed(extensions, _EXT_SERVER_NAME)),
        psk=_EXT_PSK in extensions,
        early_data=_EXT_EARLY_DATA in extensions,
    )


def _encrypted_extensions(name: str, size: int, body: _Reader) -> EncryptedExtensions:
    extensions = body.extensions()
    return EncryptedExtensions(
        name=name,
        size=size,
        alpn=_first(_alpn(extensions)),
        early_data=_EXT_EARLY_DATA in extensions,
    )


def _certificate_verify(name: str, size: int, body: _Reader) -> CertificateVerify:
    signature = name_of(SIGNATURE_SCHEMES, body.number(2))
    return CertificateVerify(name=name, size=size, signature=signature)


def _key_update(name: str, size: int, body: _Reader) -> KeyUpdate:
    return KeyUpdate(name=name, size=size, update_requested=body.number(1) == 1)


def _listed(extensions: dict[int, bytes], kind: int) -> _Reader:
    """The one vector, with a length of two bytes, that an extension holds; absent is empty."""
    return _Reader(extensions.get(kind, b"\0\0")).vector(2)


def _names(table: Mapping[int, str], codes: _Reader) -> tuple[str, ...]:
    return tuple(name_of(table, code) for code in codes.numbers(2))[:MAX_LISTED]


def _key_shares(entries: _Reader) -> tuple[str, ...]:
    groups: list[str] = []
    while entries:
        groups.append(name_of(GROUPS, entries.number(2)))
        entries.vector(2)
    return tuple(groups[:MAX_LISTED])


def _alpn(extensions: dict[int, bytes]) -> tuple[str, ...]:
    entries = _listed(extensions, _EXT_ALPN)
    protocols: list[str] = []
    while entries:
        protocols.append(printable(entries.vector(1).rest().decode("latin-1")))
    return tuple(protocols[:MAX_LISTED])


def _server_name(entries: _Reader) -> str | None:
    """The host_name of an SNI list (RFC 6066 section 3)."""
    while entries:
        kind = entries.number(1)
        name = entries.vector(2).rest()
        if kind == 0:
            return printable(name.decode("latin-1"))
    return None


def _first(items: tuple[str, ...]) -> str | None:
    return items[0] if items else None
