"""Tests that compute: torch on one thread, or a skip that says how to get it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.peers.require import in_ci

if find_spec("torch") is None:
    remedy = "torch is not installed; pip install -c constraints.txt -e '.[server]'"
    if in_ci():
        pytest.fail(remedy, pytrace=False)
    pytest.skip(remedy, allow_module_level=True)

import torch

torch.set_num_threads(1)
