"""What all QUIC connections of a listener share: certificate, keys, tickets."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.quic.retry import QuicRetryTokenHandler

from reference_server.listen.early_data import Tickets
from reference_server.listen.quic_faults import bulky_certificate
from reference_server.settings import ListenSettings


@dataclass(frozen=True, slots=True)
class QuicSetup:
    """Everything but the socket."""

    configuration: QuicConfiguration
    tickets: Tickets = field(default_factory=Tickets)
    retry_tokens: QuicRetryTokenHandler = field(default_factory=QuicRetryTokenHandler)
    reset_key: bytes = field(default_factory=lambda: os.urandom(32))


def quic_setup(certificate: str, key: str, settings: ListenSettings) -> QuicSetup:
    """Read the certificate chain and its key (PEM).

    With the environment variable SSLKEYLOGFILE the secrets go there, as TLS over TCP has it.
    Raises OSError, and ValueError when the files are no certificate or key.
    """
    log = os.environ.get("SSLKEYLOGFILE")
    configuration = QuicConfiguration(
        is_client=False,
        alpn_protocols=["h3"],
        idle_timeout=settings.quic_idle_timeout_s,
        max_stream_data=settings.body_window_bytes,
        secrets_log_file=open(log, "a", encoding="ascii") if log else None,  # noqa: SIM115
    )
    configuration.load_cert_chain(certificate, key)
    if (faults := settings.quic_faults) is not None:
        if faults.version_negotiation:
            configuration.supported_versions = [QuicProtocolVersion.VERSION_2]
        if faults.amplification:
            configuration.certificate_chain.append(bulky_certificate())
    return QuicSetup(configuration)
