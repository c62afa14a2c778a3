"""Fixtures for the whole suite."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.peers.certs import Certificates, make_certificates

# How long an example took says nothing on a machine that others use too.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


# A model in the user's cache must not change what the server is when nothing else is said.
os.environ["PROMPTPATH_ENGINE"] = "paced"


@pytest.fixture(scope="session")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """The suite's throw-away CA and leaves (tests/peers/certs.py)."""
    return make_certificates(tmp_path_factory.mktemp("certs"))
