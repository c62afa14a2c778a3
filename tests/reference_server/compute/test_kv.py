"""The KV pool."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.reference_server.compute import torch_needed  # noqa: F401  # isort: skip
import torch

from reference_server.compute.config import read_config
from reference_server.compute.kv import KvPool


def test_what_is_written_into_slots_is_gathered_by_blocks(random_model: Path) -> None:
    pool = KvPool(read_config(str(random_model)), 4, torch.float32)
    pairs = torch.randn(3, 4, 16)
    pool.write(1, torch.tensor([2 * 16 + 5, 0, 15]), pairs)
    keys, values = pool.gather(1, torch.tensor([2, 0]))
    assert keys.shape == values.shape == (32, 2, 16)
    assert torch.equal(keys[[5, 16, 31]], pairs[:, :2])
    assert torch.equal(values[[5, 16, 31]], pairs[:, 2:])
    other, _ = pool.gather(0, torch.tensor([2, 0]))
    assert not other.any() and int(keys.any(-1).any(-1).sum()) == 3


def test_a_pool_takes_no_memory_before_it_is_used(random_model: Path) -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    before = resident_bytes()
    pool = KvPool(read_config(str(random_model)), 100_000, torch.float32)
    whole = pool.bytes_per_token * 100_000 * 16
    assert whole > 800_000_000 and resident_bytes() - before < whole / 10


@pytest.mark.parametrize("blocks", [10**10, 10**16])
def test_more_than_the_machine_has_is_said(random_model: Path, blocks: int) -> None:
    with pytest.raises(MemoryError, match=f"no memory for {blocks} KV blocks"):
        KvPool(read_config(str(random_model)), blocks, torch.float32)
