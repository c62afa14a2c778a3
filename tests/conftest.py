"""Fixtures for the whole suite."""

from __future__ import annotations

import pytest

from tests.peers.certs import Certificates, make_certificates


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """The suite's throw-away CA and leaves (tests/peers/certs.py)."""
    return make_certificates(tmp_path_factory.mktemp("certs"))
