"""The lab's cheap part, for CI: four products that stream or hold, each with its cure, and whether
the tool says so. `python -m benchmarks.proxies` runs all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.proxies.cell import run_cell
from benchmarks.proxies.configurations import CONFIGURATIONS, Configuration, Protocol
from benchmarks.proxies.stream import Stream
from tests.e2e.reference import Server, reference_server
from tests.peers.certs import Certificates

pytestmark = [pytest.mark.peer, pytest.mark.slow]
SHORT = Stream(events=80, event_bytes=251, gap_ms=20)
"""20 kB in 1.6 s: enough for whole bodies, encoders and a limit of 8 kB/s."""
CELLS = (
    ("lighttpd", "as it comes", Protocol.H1, "whole-body"),
    ("lighttpd", "stream-response-body", Protocol.H1, "streaming"),
    ("Varnish", "as it comes", Protocol.H1, "streaming"),
    ("Varnish", "do_stream = false", Protocol.H1, "whole-body"),
    ("Apache httpd", "as it comes", Protocol.H1, "streaming"),
    ("Apache httpd", "as it comes", Protocol.H2_TLS, "streaming"),
    ("Apache httpd", "mod_deflate", Protocol.H1, "streaming"),
    ("Squid", "ICAP scanner that reads all", Protocol.H1, "whole-body"),
    ("Squid", "the same, event streams exempt", Protocol.H1, "streaming"),
)
"""Product, configuration, protocol, and what both verdicts must be."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of test streams alone."""
    with reference_server(tmp_path_factory.mktemp("lab"), "--engine", "none") as server:
        yield server


def configuration(product: str, name: str) -> Configuration:
    """The lab's own, with a shorter stream."""
    (found,) = (c for c in CONFIGURATIONS if (c.product, c.name) == (product, name))
    return replace(found, stream=SHORT)


@pytest.mark.parametrize(("product", "name", "protocol", "answer"), CELLS)
def test_products_do_what_the_lab_says_and_the_tool_sees_it(
    product: str,
    name: str,
    protocol: Protocol,
    answer: str,
    origin: Server,
    certs: Certificates,
    tmp_path: Path,
) -> None:
    box = configuration(product, name)
    cell = run_cell(box, protocol, origin.url, certs, tmp_path, version="", active=False)
    assert cell.held == box.holds, cell
    assert (cell.stamped.split()[0], cell.passive.split()[0]) == (answer, answer)


def test_every_configuration_is_in_the_lab_once() -> None:
    keys = [(each.product, each.name) for each in CONFIGURATIONS]
    assert len(keys) == len(set(keys))
