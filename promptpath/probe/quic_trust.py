"""Whether a QUIC server's certificates are to be trusted: OpenSSL's judgement on the chain, our own
on the name.

aioquic would read the trust store in the middle of the handshake (20 ms for 144 authorities, as
`tls_context` has it) and knows certifi's alone; here the store is the system's, read before t0.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from promptpath.probe import certificates
from promptpath.probe.certificates import Verdict
from promptpath.probe.tls_context import TlsSettings, check_authorities


@lru_cache(maxsize=4)
def trust_store(settings: TlsSettings) -> Any:
    """An OpenSSL store of what these settings trust: the system's authorities and --cacert.

    OpenSSL reads the files itself: 4 ms for 144 authorities, where parsing them one by one took 35.
    Raises UsageError for a bad --cacert.
    """
    from OpenSSL import crypto

    store = crypto.X509Store()
    paths = ssl.get_default_verify_paths()
    if paths.cafile is not None or paths.capath is not None:
        store.load_locations(paths.cafile, paths.capath)
    if settings.ca_file is not None:
        check_authorities(settings.ca_file)
        store.load_locations(settings.ca_file)
    return store


def judge_chain(chain: Sequence[bytes], settings: TlsSettings, name: str) -> Verdict | None:
    """The verdict on a chain, the leaf first; None where there is none to judge."""
    from OpenSSL import crypto

    if not chain:
        return None
    leaf = certificates.load(chain[0])
    if leaf is None:
        return Verdict(certificates.UNREADABLE, "the leaf is not a readable X.509 certificate")
    others = [found for found in map(certificates.load, chain[1:]) if found is not None]
    context = crypto.X509StoreContext(
        trust_store(settings),
        crypto.X509.from_cryptography(leaf),
        [crypto.X509.from_cryptography(each) for each in others],
    )
    try:
        context.verify_certificate()
    except crypto.X509StoreContextError as error:
        code, _, message = error.errors
        return Verdict(int(code), str(message))
    if not certificates.serves(leaf):
        return Verdict(certificates.INVALID_PURPOSE, "unsuitable certificate purpose")
    if not certificates.matches_name(name, certificates.alternatives(leaf)):
        return Verdict(certificates.HOST_MISMATCH, f"hostname mismatch: not valid for {name}")
    return Verdict(certificates.OK, None)


def as_ssl_error(verdict: Verdict) -> ssl.SSLCertVerificationError:
    """The verdict in the form OpenSSL's own check over TCP raises."""
    error = ssl.SSLCertVerificationError(verdict.reason or "invalid")
    error.verify_code, error.verify_message = verdict.code, verdict.reason or "invalid"
    return error
