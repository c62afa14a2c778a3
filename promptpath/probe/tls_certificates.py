"""What of a connection's certificates is recorded, and the one check OpenSSL leaves to us."""

from __future__ import annotations

import ssl
from typing import Any

from promptpath.model.names import TLS_CHAIN, TLS_VERIFY
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_S
from promptpath.probe import certificates
from promptpath.probe.clock import RunClock
from promptpath.probe.tls_context import TlsTarget, trusted_roots
from promptpath.probe.tls_observer import HandshakeObserver


def check_name(tls: ssl.SSLObject, target: TlsTarget) -> None:
    """Without SNI OpenSSL is told no name, so the name is checked here. Raises what OpenSSL's own
    check raises."""
    if target.settings.named or target.settings.insecure:
        return
    alternatives: Any = (tls.getpeercert() or {}).get("subjectAltName", ())
    if certificates.matches_name(target.name, alternatives):
        return
    error = ssl.SSLCertVerificationError(f"not valid for {target.name}")
    error.verify_code = certificates.HOST_MISMATCH
    error.verify_message = f"hostname mismatch: not valid for {target.name}"
    raise error


def record_certificates(
    observer: HandshakeObserver,
    tls: ssl.SSLObject,
    target: TlsTarget,
    clock: RunClock,
    *,
    done: bool,
) -> None:
    """Record the chain; with --insecure and a handshake that is `done`, also what verification
    would have said. Parses certificates and reads the trust store: tens of milliseconds."""
    chain = observer.chain or _chain_without_hook(tls, done)
    if chain:
        observer.fact(TLS_CHAIN, certificates.describe(chain))
    if target.settings.insecure and done:
        observer.fact(TLS_VERIFY, _verify_afterwards(chain, target, clock))


def _verify_afterwards(chain: tuple[bytes, ...], target: TlsTarget, clock: RunClock) -> Json:
    if not chain:
        return certificates.verdict_fact(None)
    now_unix_s = clock.unix_ns(clock.now_ns()) // NS_PER_S
    verdict = certificates.judge(chain, trusted_roots(target.settings), target.name, now_unix_s)
    return certificates.verdict_fact(verdict)


def _chain_without_hook(tls: ssl.SSLObject, done: bool) -> tuple[bytes, ...]:
    """From Python 3.13 on the chain as sent, before it the leaf alone."""
    if not done:
        return ()
    if hasattr(tls, "get_unverified_chain"):
        return tuple(tls.get_unverified_chain())
    leaf = tls.getpeercert(binary_form=True)
    return () if leaf is None else (leaf,)
