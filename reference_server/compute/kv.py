"""The KV pool: one tensor of blocks for all sequences, found through their block tables."""

from __future__ import annotations

import math
import mmap

import torch
from torch import Tensor

from reference_server.compute.config import ModelConfig
from reference_server.engine.plan import BLOCK_TOKENS


class KvPool:
    """`[layers, blocks, 16, 2 x kv heads, head dim]`: a token's keys, then its values, so that both
    are written and gathered in one call.

    Memory is taken from the system when a block is first written, not before.
    """

    def __init__(self, config: ModelConfig, blocks: int, dtype: torch.dtype) -> None:
        """Raises MemoryError when the system does not give so much."""
        shape = (config.layers, blocks, BLOCK_TOKENS, 2 * config.kv_heads, config.head_dim)
        try:
            # Zeros, page by page; torch.zeros would write them all, and take all memory, at once.
            memory = mmap.mmap(-1, math.prod(shape) * dtype.itemsize)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"no memory for {blocks} KV blocks") from error
        self._cells = torch.frombuffer(memory, dtype=dtype).view(shape)
        self.blocks = blocks
        self.dtype = dtype
        self._kv_heads = config.kv_heads
        self._layers = self._cells.unbind()
        self._slots = self._cells.flatten(1, 2).unbind()

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one token takes in all layers."""
        return self._cells[:, 0, 0].numel() * self._cells.element_size()

    def write(self, layer: int, slots: Tensor, pairs: Tensor) -> None:
        """Put `(tokens, 2 x kv heads, head dim)` into slots, block * 16 + place."""
        self._slots[layer].index_copy_(0, slots, pairs)

    def gather(self, layer: int, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the blocks, one after the other: `(tokens, kv heads, head dim)`."""
        pairs = self._layers[layer].index_select(0, blocks).flatten(0, 1)
        return pairs[:, : self._kv_heads], pairs[:, self._kv_heads :]
