"""The KV pool: one tensor of blocks for all sequences, found through their block tables."""

from __future__ import annotations

import torch
from torch import Tensor

from reference_server.compute.config import ModelConfig
from reference_server.engine.plan import BLOCK_TOKENS


class KvPool:
    """Keys and values, each `[layers, blocks, 16, kv heads, head dim]`.

    Memory is taken from the system when a block is first written, not before.
    """

    def __init__(self, config: ModelConfig, blocks: int, dtype: torch.dtype) -> None:
        """Raises MemoryError when the system does not give so much."""
        shape = (config.layers, blocks, BLOCK_TOKENS, config.kv_heads, config.head_dim)
        try:
            self.keys = torch.zeros(shape, dtype=dtype)
            self.values = torch.zeros(shape, dtype=dtype)
        except RuntimeError as error:
            raise MemoryError(f"no memory for {blocks} KV blocks") from error
        self.blocks = blocks
        flat = (config.layers, blocks * BLOCK_TOKENS, config.kv_heads, config.head_dim)
        self._flat_keys = self.keys.view(flat).unbind()
        self._flat_values = self.values.view(flat).unbind()

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token takes in all layers."""
        return 2 * self.keys[:, 0, 0].numel() * self.keys.element_size()

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put keys and values `(tokens, kv heads, head dim)` into slots (block * 16 + place)."""
        self._flat_keys[layer].index_copy_(0, slots, keys)
        self._flat_values[layer].index_copy_(0, slots, values)

    def gather(self, layer: int, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the blocks, one after the other: `(tokens, kv heads, head dim)`."""
        keys = self.keys[layer].index_select(0, blocks)
        values = self.values[layer].index_select(0, blocks)
        return keys.flatten(0, 1), values.flatten(0, 1)
