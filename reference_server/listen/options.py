"""The command line's options for HTTP/3."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from reference_server.listen.quic_faults import USAGE, FaultError, read_faults
from reference_server.settings import ListenSettings


def add_quic(parser: argparse.ArgumentParser, number: Callable[[float, float], Any]) -> None:
    """Add them; `number(low, high)` reads a number within a range."""
    defaults = ListenSettings()
    add = parser.add_argument
    add("--no-http3", action="store_true", help="do not listen on UDP")
    add("--quic-retry", action="store_true", help="make each HTTP/3 client prove its address")
    add(
        "--quic-idle-timeout-s",
        type=number(1, 86_400),
        default=defaults.quic_idle_timeout_s,
        help="max_idle_timeout of HTTP/3 connections (%(default)s)",
    )
    add(
        "--quic-fault",
        dest="quic_faults",
        action=_Faults,
        metavar="FAULT",
        help=f"do something wrong on purpose, may be repeated: {USAGE}",
    )


class _Faults(argparse.Action):
    """Collects `--quic-fault` and keeps in the namespace what they mean together."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        words = [*getattr(namespace, "quic_fault_words", []), values]
        namespace.quic_fault_words = words
        try:
            namespace.quic_faults = read_faults(words)
        except FaultError as error:
            raise argparse.ArgumentError(self, str(error)) from None


def http3_wanted(given: argparse.Namespace) -> bool:
    """It needs TLS, and is left out where one version alone was asked for."""
    one_version = given.http1_only or given.http2_only
    return not (one_version or given.no_http3 or given.tls == "off")
