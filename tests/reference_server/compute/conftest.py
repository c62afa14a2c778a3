"""The tiny random model, written once for all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_server.compute.random_model import write_random_model


@pytest.fixture(scope="session")
def random_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GGUF file of random weights."""
    path = tmp_path_factory.mktemp("model") / "random.gguf"
    write_random_model(path)
    return path
