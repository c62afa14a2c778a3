"""Which options of the command line are the edge's own, and which go on to the replicas. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_WITHOUT_VALUE = {
    *("--edge", "--clear-text", "--http1-only", "--http2-only", "--announce", "--stop-with-stdin"),
    *("--no-http3", "--quic-retry"),
}
_WITH_VALUE = {
    *("--replicas", "--host", "--port", "--tls", "--cert", "--key", "--tls-name", "--grace-s"),
    *("--quic-idle-timeout-s", "--quic-fault"),
}


def replica_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments without where and how to listen: that the edge decides for a replica.

    >>> replica_arguments(["--edge", "--port=8443", "--replicas", "2", "--itl-ms", "5"])
    ['--itl-ms', '5']
    """
    kept: list[str] = []
    left = iter(arguments)
    for argument in left:
        name, equals, _ = argument.partition("=")
        if name in _WITHOUT_VALUE:
            continue
        if name in _WITH_VALUE:
            if not equals:
                next(left, None)
            continue
        kept.append(argument)
    return kept
