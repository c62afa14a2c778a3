"""Builds the TLS contexts, and is the one place that knows `ssl`'s private message callback.

Building a context reads the system's trust store (measured: 20 ms for 144 authorities), so
`prepare` is called before t0; the handshake then finds the same context again. One context serves
all connections with the same files: only so can a session of one be offered on the next.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from promptpath.errors import UsageError

MessageObserver = Callable[[bool, int, bytes], None]
"""Called with (sent by us, content type, bytes of a handshake message or alert or CCS)."""

_MAX_CONTENT_TYPE: Final = 255
"""OpenSSL also hands record headers (256) and inner content types (257) to the callback
(SSL_CTX_set_msg_callback(3)); real content types are one byte (RFC 8446 section 5.1)."""
_HOOK: Final = "_msg_callback"
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What makes two contexts different."""

    ca_file: str | None = None
    """PEM file of authorities trusted beside the system's."""
    insecure: bool = False
    """Go on whatever the certificate is worth."""
    keylog_file: str | None = None
    """Where OpenSSL appends the session secrets (NSS key log format)."""
    named: bool = True
    """The server's name is sent, and OpenSSL checks it; without SNI we check it ourselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsTarget:
    """Whom to shake hands with, and what to ask for."""

    host: str
    """A-label or IP literal: whom the certificate must name, unless `sni` names another."""
    sni: str | None = None
    """None: the host; "": none is sent."""
    alpn: tuple[str, ...] = ()
    settings: TlsSettings = field(default_factory=TlsSettings)

    @property
    def name(self) -> str:
        """The name the certificate must be for; no final dot (RFC 6066 section 3)."""
        return (self.sni or self.host).removesuffix(".")


class ObservedTls(ssl.SSLObject):
    """An SSLObject that knows who listens to its handshake messages."""

    on_message: MessageObserver | None = None


def prepare(settings: TlsSettings) -> None:
    """Build the context before t0. Raises UsageError for a file of the user's that is no use.

    A first connection object is thrown away with it: it loads the codec of the name and OpenSSL's
    ciphers, which would stand between TCP and our ClientHello (measured: 1.4 ms, 0.02 ms after).
    """
    first = context_for(settings).wrap_bio(
        ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost"
    )
    with contextlib.suppress(ssl.SSLWantReadError):
        first.do_handshake()


@lru_cache(maxsize=8)
def context_for(settings: TlsSettings) -> ssl.SSLContext:
    """The client context for these settings, built once. TLS 1.2 at least (RFC 8996), OpenSSL's
    default ciphers and groups: we measure what a usual client meets. Raises UsageError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A renegotiation could only ask for a client certificate; HTTP/2 forbids it (RFC 9113, 9.2.1).
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.check_hostname = settings.named and not settings.insecure
    if settings.insecure:
        context.verify_mode = ssl.CERT_NONE
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.ca_file is not None:
        _load_authorities(context, settings.ca_file)
    if settings.keylog_file is not None:
        _set_keylog(context, settings.keylog_file)
    context.sslobject_class = ObservedTls
    _install_hook(context)
    return context


def has_message_hook() -> bool:
    """Whether this Python shows handshake messages in the clear. It is private (bpo-36544 added
    it for debugging), so it may go; record headers and clear messages are what is left then."""
    return hasattr(ssl.SSLContext, _HOOK)


def _install_hook(context: ssl.SSLContext) -> None:
    if has_message_hook():
        setattr(context, _HOOK, _dispatch)


def _dispatch(
    conn: object, direction: str, version: Any, content_type: int, kind: Any, data: bytes
) -> None:
    if content_type > _MAX_CONTENT_TYPE or not isinstance(conn, ObservedTls):
        return
    if conn.on_message is not None:
        conn.on_message(direction == "write", int(content_type), bytes(data))


def check_authorities(ca_file: str) -> None:
    """Raises UsageError for a --cacert that is no use."""
    _load_authorities(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ca_file)


def _load_authorities(context: ssl.SSLContext, ca_file: str) -> None:
    try:
        context.load_verify_locations(cafile=ca_file)
    except FileNotFoundError:
        raise UsageError(
            f"no such file: {ca_file}",
            where="--cacert",
            hint="give a PEM file with the certificate of the authority to trust",
        ) from None
    except (ssl.SSLError, OSError) as error:
        raise UsageError(
            f"cannot read certificates from {ca_file}: {_reason(error)}",
            expected='a PEM file ("-----BEGIN CERTIFICATE-----")',
            where="--cacert",
            hint="convert DER with: openssl x509 -inform der -in FILE -out FILE.pem",
        ) from None


def _set_keylog(context: ssl.SSLContext, keylog_file: str) -> None:
    """The file is created readable by its owner only: it opens the whole connection to a reader."""
    try:
        os.close(os.open(keylog_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        context.keylog_filename = keylog_file
    except OSError as error:
        raise UsageError(
            f"cannot write {keylog_file}: {_reason(error)}",
            where="--keylog",
            hint="give a file in a directory you may write to",
        ) from None


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__


def trusted_roots(settings: TlsSettings) -> list[bytes]:
    """DER of every certificate these settings trust. Reads files: not for the critical path.

    What OpenSSL loads lazily (a hashed directory) or does not list (certificates of the user's that
    are no authorities) is read here.
    """
    roots = context_for(settings).get_ca_certs(binary_form=True)
    files = [] if settings.ca_file is None else [Path(settings.ca_file)]
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is not None:
        files += sorted(Path(paths.capath).glob("*.[0-9]"))
    for file in files:
        roots += _read_pem(file)
    return roots


def _read_pem(file: Path) -> list[bytes]:
    try:
        blocks = _PEM.findall(file.read_text("latin-1"))
        return [ssl.PEM_cert_to_DER_cert(block) for block in blocks]
    except (OSError, ValueError):
        return []
