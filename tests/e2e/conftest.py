"""Two reference servers for the whole folder: one behind TLS, one in the clear."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.reference import Server, reference_server
from tests.peers.certs import Certificates


@pytest.fixture(scope="session")
def secure(certs: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Over TLS with the suite's good leaf; ALPN h2 and http/1.1."""
    with reference_server(tmp_path_factory.mktemp("secure"), tls=certs.good) as server:
        yield server


@pytest.fixture(scope="session")
def clear(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """In clear text: HTTP/1.1, and HTTP/2 with prior knowledge."""
    with reference_server(tmp_path_factory.mktemp("clear")) as server:
        yield server


@pytest.fixture(scope="session")
def trust(certs: Certificates) -> tuple[str, str]:
    """The options that trust the suite's CA."""
    return ("--cacert", str(certs.ca))
