"""Says what a failed handshake means: each cause with its own code, and what to do about it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final

from promptpath.errors import MeasureError, RemoteError
from promptpath.model.enums import Stage
from promptpath.model.redact import printable
from promptpath.probe.certificates import certificate_code
from promptpath.probe.tls_observer import HandshakeObserver
from promptpath.wire.tls_records import NotTls

CERTIFICATE_HINTS: Final[dict[str, str]] = {
    "cert-expired": "renew the server's certificate; --insecure measures on",
    "cert-not-yet-valid": "check this machine's clock, then the certificate's dates",
    "cert-self-signed": "trust it with --cacert FILE, or measure on with --insecure",
    "cert-unknown-ca": "give its authority with --cacert FILE (a private CA, or a box that "
    "inspects TLS), or measure on with --insecure",
    "cert-wrong-host": "check the host name and --sni; the names are in the trace's tls.chain",
    "cert-invalid": "see tls.chain in the trace; --insecure measures on",
}


@dataclass(frozen=True, slots=True)
class _Cause:
    """A code with its hint."""

    code: str
    hint: str


_ALERT_CAUSES: Final[dict[str, _Cause]] = {
    "protocol_version": _Cause(
        "version", "the server speaks no TLS 1.2 or 1.3: upgrade it (RFC 8996 forbids older ones)"
    ),
    "handshake_failure": _Cause(
        "handshake-failure",
        "the server shares no cipher suite, group or signature algorithm with us, has no "
        "certificate for this SNI, or wants a client certificate",
    ),
    "insufficient_security": _Cause(
        "no-shared-cipher", "the server wants stronger cipher suites than this OpenSSL offers"
    ),
    "no_application_protocol": _Cause(
        "alpn-mismatch", "the server speaks none of the HTTP versions offered: try --http auto"
    ),
    "unrecognized_name": _Cause(
        "unrecognized-name", "the server knows no such host: check the URL's host and --sni"
    ),
    "certificate_required": _Cause(
        "client-certificate", "the server wants a client certificate, which we cannot give"
    ),
    "access_denied": _Cause("access-denied", "the server refuses this client"),
    "internal_error": _Cause("server-error", "the server failed: see its log"),
}
_DEFAULT_CAUSE: Final = _Cause("alert", "the alert's meaning is in RFC 8446 section 6.2")
_VERSION_REASONS: Final = frozenset({"UNSUPPORTED_PROTOCOL", "WRONG_SSL_VERSION"})
_NOT_TLS_HINTS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"HTTP/", "the port speaks plain HTTP: use http:// or the TLS port"),
    (b"SSH-", "the port speaks SSH"),
    (b"220", "the port speaks SMTP or FTP"),
)


@dataclass(frozen=True, slots=True)
class FailureContext:
    """What is needed to word any failure of one handshake."""

    stage: Stage
    host: str
    observer: HandshakeObserver

    def error(
        self, what: str, code: str, *, expected: str | None = None, hint: str | None = None
    ) -> MeasureError:
        """A MeasureError of this handshake."""
        return MeasureError(
            what,
            stage=self.stage.value,
            code=code,
            expected=expected,
            where=f"TLS handshake with {self.host}, {self._progress()}",
            hint=hint,
        )

    def _progress(self) -> str:
        last = self.observer.last_received
        return f"after its {last}" if last else "before any answer to our ClientHello"


def not_tls(context: FailureContext, fault: NotTls) -> RemoteError:
    """Bytes came that are no TLS record."""
    text = printable(fault.received.split(b"\n")[0].strip().decode("ascii", "backslashreplace"))
    hints = (hint for start, hint in _NOT_TLS_HINTS if fault.received.startswith(start))
    return RemoteError(
        f'the peer does not speak TLS: it sent "{text}"',
        stage=context.stage.value,
        code="not-tls",
        expected="a TLS record (content type 20 to 23, version 3.x)",
        where=f"{context.host}, byte {fault.offset} of its answer, wrong {fault.why}",
        hint=next(hints, "check that this port speaks TLS"),
    )


def closed(context: FailureContext, how: str, detail: str) -> MeasureError:
    """The connection ended inside the handshake."""
    verb = "reset the connection" if how == "rst" else "closed the connection"
    observer = context.observer
    if observer.fatal_alert is not None:
        return alert(context, observer.fatal_alert.description)
    if observer.client_certificate_requested:
        hint = "it asked for a client certificate, which we cannot give"
    elif observer.last_received is None:
        hint = "not a TLS port, or a filter on the path dislikes this SNI or our ClientHello"
    else:
        hint = "see the server's log"
    what = f"the peer {verb} during the TLS handshake"
    return context.error(f"{what}: {printable(detail)}" if detail else what, "closed", hint=hint)


def timed_out(context: FailureContext, pending: int) -> MeasureError:
    """Nothing more came in time."""
    if pending:
        what, hint = (
            f"the TLS handshake stopped inside a record ({pending} bytes of it came)",
            "large packets may be lost on the path (MTU)",
        )
    elif context.observer.last_received is None:
        what, hint = (
            "no answer to the ClientHello in time",
            "not a TLS port, a filter on the path, or an overloaded server",
        )
    else:
        what, hint = "the TLS handshake did not end in time", "see the server's log"
    return context.error(what, "connect-timeout", hint=hint)


def alert(context: FailureContext, description: str) -> MeasureError:
    """The server refused with a fatal alert."""
    cause = _ALERT_CAUSES.get(description, _DEFAULT_CAUSE)
    code, hint = cause.code, cause.hint
    if context.observer.client_certificate_requested and code in {"handshake-failure", "alert"}:
        code, hint = "client-certificate", _ALERT_CAUSES["certificate_required"].hint
    return context.error(f"the server refused with the TLS alert {description}", code, hint=hint)


def bad_certificate(context: FailureContext, verify_code: int, message: str) -> MeasureError:
    """OpenSSL (or our own check of the name) rejects the chain."""
    code = certificate_code(verify_code)
    return context.error(
        f"the certificate of {context.host} is not to be trusted: {printable(message)}",
        code,
        hint=CERTIFICATE_HINTS[code],
    )


def engine_failure(context: FailureContext, error: ssl.SSLError) -> MeasureError:
    """OpenSSL gave up: on the certificate, on the server's alert, or on its messages."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return bad_certificate(context, error.verify_code, error.verify_message)
    if context.observer.fatal_alert is not None:
        return alert(context, context.observer.fatal_alert.description)
    reason = error.reason or type(error).__name__
    if reason in _VERSION_REASONS:
        hello = context.observer.server_hello
        version = f" ({hello.version})" if hello is not None else ""
        return context.error(
            f"the server chose a TLS version we do not speak{version}",
            "version",
            expected="TLS 1.2 or TLS 1.3",
            hint=_ALERT_CAUSES["protocol_version"].hint,
        )
    words = reason.replace("_", " ").lower()
    return context.error(
        f"the server's handshake breaks the protocol: {words}",
        "handshake-protocol",
        expected="messages as in RFC 8446 or RFC 5246",
        hint="a box in the path may rewrite TLS",
    )
