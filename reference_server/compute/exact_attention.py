"""Attention for the deterministic mode: a token's result depends on its own sequence alone.

Every product has one fixed shape, whatever the batch and the chunk: tiles of 16 queries against
tiles of 128 keys, joined by the online softmax (Milakov and Gimelshein, arXiv:1805.02867). A tile
that a query may not see changes its sums by exactly nothing.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from reference_server.compute.attention import blocks_of, slots_of
from reference_server.compute.kv import KvPool
from reference_server.engine.plan import StepItem

_QUERY_TILE = 16
_KEY_TILE = 128
"""Sizes of the tiles; a choice, not a measurement."""


class ExactAttention:
    """An `attention.Attention` in float32 whose sums have a fixed order."""

    def __init__(self, pool: KvPool) -> None:
        self._pool = pool

    def begin(self, items: tuple[StepItem, ...]) -> None:
        """See `Attention`."""
        self._items = items
        self._slots = slots_of(items)

    def write(self, layer: int, pairs: Tensor) -> None:
        """See `Attention`."""
        self._pool.write(layer, self._slots, pairs)

    def attend(self, layer: int, queries: Tensor) -> Tensor:
        """See `Attention`."""
        outputs = []
        first = 0
        for item in self._items:
            count = len(item.token_ids)
            keys, values = self._pool.gather(layer, torch.tensor(blocks_of(item)))
            asked = torch.split(queries[first : first + count], _QUERY_TILE)
            for number, tile in enumerate(asked):
                start = item.position + number * _QUERY_TILE
                outputs.append(_attend_tile(tile, start, keys, values))
            first += count
        return torch.cat(outputs)


def _attend_tile(queries: Tensor, start: int, keys: Tensor, values: Tensor) -> Tensor:
    """Up to 16 queries `(tokens, kv heads, group, dim)` at `start` and after."""
    count, heads, group, size = queries.shape
    padded = F.pad(queries, (0, 0, 0, 0, 0, 0, 0, _QUERY_TILE - count))
    asked = padded.permute(1, 2, 0, 3).reshape(heads, group * _QUERY_TILE, size) * size**-0.5
    position = torch.arange(start, start + _QUERY_TILE).repeat(group)[:, None]
    best = torch.full((heads, group * _QUERY_TILE, 1), -torch.inf)
    total = torch.zeros(heads, group * _QUERY_TILE, 1)
    answer = torch.zeros(heads, group * _QUERY_TILE, size)
    for first in range(0, start + count, _KEY_TILE):
        tile = keys[first : first + _KEY_TILE]
        missing = _KEY_TILE - tile.shape[0]
        seen = F.pad(tile, (0, 0, 0, 0, 0, missing)).permute(1, 2, 0)
        told = F.pad(values[first : first + _KEY_TILE], (0, 0, 0, 0, 0, missing)).transpose(0, 1)
        score = torch.bmm(asked, seen)
        score = score.masked_fill(torch.arange(first, first + _KEY_TILE) > position, -torch.inf)
        higher = torch.maximum(best, score.amax(-1, keepdim=True))
        weight = torch.exp(score - higher)
        kept = torch.exp(best - higher)
        total = total * kept + weight.sum(-1, keepdim=True)
        answer = answer * kept + torch.bmm(weight, told)
        best = higher
    answer = (answer / total).view(heads, group, _QUERY_TILE, size)
    return answer.permute(2, 0, 1, 3)[:count]
