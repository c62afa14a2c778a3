"""PP3xx: TLS."""

from __future__ import annotations

from promptpath.analysis.facts import Record, whole
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.rules.cause import failed
from promptpath.analysis.view import Measured
from promptpath.model.enums import Severity, Stage
from promptpath.model.names import (
    TLS_CHAIN,
    TLS_CLIENT_CERT_REQUESTED,
    TLS_HELLO_RETRY,
    TLS_RESUMED,
    TLS_TICKET,
    TLS_VERIFY,
    TLS_VERSION,
)
from promptpath.model.units import NS_PER_S, format_duration

DAY_S = 86_400
SOON_S = 14 * DAY_S
"""ACME clients renew when a third of the lifetime is left, 30 days of 90 (Let's Encrypt,
"Integration Guide"): with less than half of these left, the renewal that should have happened did
not."""
LIFETIME_SHARE = 6
"""Certificates of a few days: half of the last third of their life, by the same rule."""
CERTIFICATE_CODES = (
    "cert-unknown-ca",
    "cert-self-signed",
    "cert-invalid",
    "cert-not-yet-valid",
)


QUIC_UNLIMITED = 0xFFFF_FFFF
"""What a ticket over QUIC says instead of a size (RFC 9001, 4.6.1)."""


def _judged(measured: Measured, *codes: str) -> Because:
    """The certificate was refused, over TCP or QUIC."""
    return failed(measured, Stage.TLS, *codes) or failed(measured, Stage.QUIC, *codes)


def _hello_retry(measured: Measured) -> Because:
    record = measured.facts.record(TLS_HELLO_RETRY)
    if not measured.facts.all(TLS_HELLO_RETRY):
        return NO
    cost = f", one round trip of {format_duration(measured.rtt_ns)}" if measured.rtt_ns else ""
    group = f" for group {record.get('group')}" if record.get("group") else ""
    return because(f"the server answered HelloRetryRequest{group}{cost}", facts=(TLS_HELLO_RETRY,))


def _old_version(measured: Measured) -> Because:
    if measured.facts.text(TLS_VERSION) != "TLSv1.2":
        return NO
    cost = f" ({format_duration(measured.rtt_ns)})" if measured.rtt_ns else ""
    return because(
        f"TLS 1.2: a full handshake costs one more round trip{cost}", facts=(TLS_VERSION,)
    )


def _chain(measured: Measured) -> list[Record]:
    chain = measured.facts.last(TLS_CHAIN)
    return [item for item in chain if isinstance(item, dict)] if isinstance(chain, list) else []


def _left_s(measured: Measured, certificate: Record) -> float | None:
    until = whole(certificate.get("not_after_unix_s"))
    return None if until is None else until - measured.trace.clock.epoch_unix_ns / NS_PER_S


def _expires_soon(measured: Measured) -> Because:
    for certificate in _chain(measured):
        left = _left_s(measured, certificate)
        until, since = (
            whole(certificate.get("not_after_unix_s")),
            whole(certificate.get("not_before_unix_s")),
        )
        if left is None or until is None or left <= 0:
            continue
        lifetime = until - since if since is not None and since < until else until
        if left < min(SOON_S, lifetime / LIFETIME_SHARE):
            subject = str(certificate.get("subject"))
            return because(f"{subject} expires in {left / DAY_S:.1f} days", facts=(TLS_CHAIN,))
    return NO


def _expired(measured: Measured) -> Because:
    found = _judged(measured, "cert-expired")
    if found:
        return found
    for certificate in _chain(measured):
        left = _left_s(measured, certificate)
        if left is not None and left <= 0:
            subject = str(certificate.get("subject"))
            return because(f"{subject} expired {-left / DAY_S:.1f} days ago", facts=(TLS_CHAIN,))
    return NO


def _unverified(measured: Measured) -> Because:
    """--insecure went on where the check would have stopped."""
    record = measured.facts.record(TLS_VERIFY)
    refused = measured.failure_stage in (Stage.TLS.value, Stage.QUIC.value)
    if refused or record.get("verified") is not False:
        return NO
    error = record.get("error")
    if not error and not record.get("checked"):
        return because("the certificate was not checked (--insecure)", facts=(TLS_VERIFY,))
    return because(f"the check would have failed: {error}", facts=(TLS_VERIFY,))


def _untrusted(measured: Measured) -> Because:
    return _judged(measured, *CERTIFICATE_CODES)


def _wrong_host(measured: Measured) -> Because:
    return _judged(measured, "cert-wrong-host")


def _handshake_failed(measured: Measured) -> Because:
    return failed(
        measured, Stage.TLS, but=(*CERTIFICATE_CODES, "cert-wrong-host", "cert-expired", "not-tls")
    )


def _not_tls(measured: Measured) -> Because:
    return failed(measured, Stage.TLS, "not-tls")


def _early_data(measured: Measured) -> Because:
    sizes = [whole(r.get("max_early_data_bytes")) or 0 for r in measured.facts.records(TLS_TICKET)]
    if not any(sizes):
        return NO
    # QUIC's tickets name no size: the windows limit it (RFC 9001, 4.6.1).
    size = "" if max(sizes) == QUIC_UNLIMITED else f"{max(sizes)} bytes of "
    return because(f"a ticket allows {size}early data", facts=(TLS_TICKET,))


def _not_resumed(measured: Measured) -> Because:
    record = measured.facts.record(TLS_RESUMED)
    if record.get("offered") is not True or record.get("accepted") is not False:
        return NO
    return because("a second connection offered a session, it was not taken", facts=(TLS_RESUMED,))


def _client_certificate(measured: Measured) -> Because:
    if measured.facts.last(TLS_CLIENT_CERT_REQUESTED) is not True:
        return NO
    return because("the server sent CertificateRequest", facts=(TLS_CLIENT_CERT_REQUESTED,))


RULES = (
    Rule(
        code="PP301",
        title="HelloRetryRequest: one more round trip",
        severity=Severity.WARNING,
        asks="Did the handshake start with a key share the server does not take?",
        decided="The server answered HelloRetryRequest (RFC 8446, 4.1.4), which costs one round"
        " trip.",
        advice="Let the server accept x25519 or P-256, the shares that clients send first.",
        is_not="Not packet loss.",
        condition=_hello_retry,
    ),
    Rule(
        code="PP302",
        title="TLS 1.2: a slower handshake",
        severity=Severity.INFO,
        asks="Would TLS 1.3 save a round trip?",
        decided="TLS 1.2 was agreed: two round trips for a full handshake (RFC 5246, 7.3) where"
        " TLS 1.3 needs one (RFC 8446, section 2).",
        advice="Enable TLS 1.3 at the server, or find the box in between that terminates TLS"
        " with 1.2 only.",
        is_not="Not insecure by itself.",
        condition=_old_version,
    ),
    Rule(
        code="PP303",
        title="A certificate of the chain expires soon",
        severity=Severity.WARNING,
        asks="Will this endpoint stop working in days?",
        decided="Less than 14 days, or a sixth of its lifetime, are left. ACME clients renew"
        " with a third left, 30 days of 90 (Let's Encrypt, Integration Guide): at half of that"
        " the renewal was missed.",
        advice="Renew it and look at why the automation did not.",
        is_not="Not an error yet.",
        condition=_expires_soon,
    ),
    Rule(
        code="PP304",
        title="A certificate of the chain has expired",
        severity=Severity.ERROR,
        asks="Is the chain valid today?",
        decided="notAfter lies before the start of this run (RFC 5280, 4.1.2.5).",
        advice="Renew it. If it is valid elsewhere, check this machine's clock.",
        is_not="Not an unknown authority.",
        condition=_expired,
    ),
    Rule(
        code="PP305",
        title="The certificate was not accepted, --insecure went on",
        severity=Severity.WARNING,
        asks="Would a client that checks have stopped here?",
        decided="The check of chain and name failed, or was left out, and --insecure was given.",
        advice="Use --cacert FILE for a private authority; do not send keys over such a"
        " connection.",
        is_not="Not proof of an attack: private authorities look the same.",
        condition=_unverified,
    ),
    Rule(
        code="PP306",
        title="The certificate is not trusted",
        severity=Severity.ERROR,
        asks="Does the chain end in an authority this machine trusts?",
        decided="Chain verification failed (RFC 5280, section 6): unknown authority,"
        " self-signed, not yet valid, or invalid.",
        advice="A private authority: --cacert FILE. Otherwise suspect a box that inspects TLS:"
        " its name is the chain's issuer.",
        is_not="Not a wrong name: see PP307.",
        condition=_untrusted,
    ),
    Rule(
        code="PP307",
        title="The certificate is for another host",
        severity=Severity.ERROR,
        asks="Does the certificate name the host asked for?",
        decided="No subjectAltName matches the host (RFC 9525, section 6).",
        advice="Check the host name, --sni and which virtual host answers; the names are in"
        " tls.chain.",
        is_not="Not an unknown authority.",
        condition=_wrong_host,
    ),
    Rule(
        code="PP308",
        title="The server offers early data",
        severity=Severity.WARNING,
        asks="Could a prompt be sent in the first flight, and replayed by somebody else?",
        decided="A session ticket carries max_early_data_size above 0 (RFC 8446, 4.2.10).",
        advice="Do not send prompts as early data: they can be replayed (RFC 8446, section 8;"
        " RFC 8470) and each replay costs tokens. Servers should answer 425 to them.",
        is_not="Not used by this tool.",
        condition=_early_data,
    ),
    Rule(
        code="PP309",
        title="TLS sessions are not resumed",
        severity=Severity.INFO,
        asks="Does every new connection pay for a full handshake?",
        decided="A second connection offered the session of the first and the server did not"
        " take it (RFC 8446, 4.2.11).",
        advice="Share ticket keys among the servers behind the address; keep connections open.",
        is_not="Not an error: some operators choose it.",
        condition=_not_resumed,
    ),
    Rule(
        code="PP310",
        title="The server asks for a client certificate",
        severity=Severity.INFO,
        asks="Is mutual TLS in use?",
        decided="CertificateRequest was received (RFC 8446, 4.3.2).",
        advice="If the request fails afterwards, this is why: none was sent.",
        is_not="Not an error where it is optional.",
        condition=_client_certificate,
    ),
    Rule(
        code="PP311",
        title="The TLS handshake failed",
        severity=Severity.ERROR,
        asks="Could a secure connection be made at all?",
        decided="An alert, a close, a reset or the connect limit ended the handshake.",
        advice="See its words: no common version, cipher suite or ALPN, an unknown server name,"
        " or a required client certificate.",
        is_not="Not a certificate problem: those are PP304, PP306 and PP307.",
        condition=_handshake_failed,
    ),
    Rule(
        code="PP312",
        title="The port does not speak TLS",
        severity=Severity.ERROR,
        asks="Is https the right scheme for this port?",
        decided="The first bytes are no TLS record (RFC 8446, 5.1).",
        advice="Use http:// if the port speaks plain HTTP; otherwise check the port.",
        is_not="Not a failed handshake: none began.",
        condition=_not_tls,
    ),
)
