"""What of the command line a replica gets."""

from __future__ import annotations

from reference_server.edge.options import replica_arguments
from reference_server.options import parse_options


def test_a_replica_gets_everything_but_where_to_listen() -> None:
    given = "--edge --replicas 2 --port=8443 --host 0.0.0.0 --slots 2 --delay edge=5ms,queue=1ms"
    kept = "--slots 2 --delay edge=5ms,queue=1ms"
    assert replica_arguments(given.split()) == kept.split()


def test_what_it_gets_is_a_command_line_of_its_own() -> None:
    tls = ["--cert", "c", "--key", "k", "--tls-name", "n", "--http1-only", "--announce"]
    options = parse_options(replica_arguments(["--edge", *tls, "--itl-ms", "3"]))
    assert not options.edge and options.certificate is None and options.settings.pace.itl_ms == 3
