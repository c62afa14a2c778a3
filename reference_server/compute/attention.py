"""Attention over the paged KV pool: gather the blocks, then torch's fused attention.

A backend for another kernel offers the same three methods. The query heads of one KV head are
folded into the query's length, so that keys and values are never repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from reference_server.compute.kv import KvPool
from reference_server.engine.plan import BLOCK_TOKENS, StepItem


class Attention(Protocol):
    """One step's attention; `begin` before the first layer, then for each layer write, attend."""

    def begin(self, items: tuple[StepItem, ...]) -> None:
        """Prepare for a step whose tokens lie one item after the other."""

    def write(self, layer: int, pairs: Tensor) -> None:
        """Keep the step's keys and values, `(tokens, 2 x kv heads, head dim)`."""

    def attend(self, layer: int, queries: Tensor) -> Tensor:
        """`(tokens, kv heads, group, head dim)` to the same shape."""


def slots_of(items: tuple[StepItem, ...]) -> Tensor:
    """Where in the pool each token of the step goes: block * 16 + place in the block."""
    slots: list[int] = []
    for item in items:
        for position in range(item.position, item.position + len(item.token_ids)):
            block = item.block_table[position // BLOCK_TOKENS]
            slots.append(block * BLOCK_TOKENS + position % BLOCK_TOKENS)
    return torch.tensor(slots)


def blocks_of(item: StepItem) -> list[int]:
    """The blocks that hold the sequence up to the item's last token."""
    tokens = item.position + len(item.token_ids)
    return list(item.block_table[: -(-tokens // BLOCK_TOKENS)])


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of the step that are attended in one call."""

    first: int
    sequences: int
    """Sequences of one token each; 1 also for the tokens of one prompt."""
    tokens: int
    """Tokens of each sequence in this step."""
    length: int
    """Keys that are looked at; the same for all sequences, those too long are masked."""
    blocks: Tensor
    """Of all sequences, each with the same number."""
    mask: Tensor | None


class GatherAttention:
    """An `Attention` by block gather and scaled_dot_product_attention, on any device."""

    def __init__(self, pool: KvPool) -> None:
        self._pool = pool

    def begin(self, items: tuple[StepItem, ...]) -> None:
        """See `Attention`. Neighbouring items of one token each are attended together."""
        self._slots = slots_of(items)
        self._parts: list[_Part] = []
        first = 0
        singles: list[StepItem] = []
        for item in items:
            if len(item.token_ids) == 1:
                singles.append(item)
                continue
            first = self._add_singles(first, singles)
            self._parts.append(self._prompt(first, item))
            first += len(item.token_ids)
        self._add_singles(first, singles)

    def write(self, layer: int, pairs: Tensor) -> None:
        """See `Attention`."""
        self._pool.write(layer, self._slots, pairs)

    def attend(self, layer: int, queries: Tensor) -> Tensor:
        """See `Attention`."""
        outputs = [self._attend_part(layer, queries, part) for part in self._parts]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    def _attend_part(self, layer: int, queries: Tensor, part: _Part) -> Tensor:
        keys, values = self._pool.gather(layer, part.blocks)
        heads, size = keys.shape[1:]
        count, tokens = part.sequences, part.tokens
        keys = keys.view(count, -1, heads, size)[:, : part.length].transpose(1, 2)
        values = values.view(count, -1, heads, size)[:, : part.length].transpose(1, 2)
        asked = queries[part.first : part.first + count * tokens]
        group = asked.shape[2]
        if tokens == 1:
            return F.scaled_dot_product_attention(asked, keys, values, attn_mask=part.mask)
        folded = asked.permute(1, 2, 0, 3).reshape(1, heads * group, tokens, size)
        answer = F.scaled_dot_product_attention(
            folded,
            keys,
            values,
            attn_mask=part.mask,
            is_causal=part.mask is None,
            enable_gqa=group > 1,
        )
        return answer.view(heads, group, tokens, size).permute(2, 0, 1, 3)

    def _add_singles(self, first: int, singles: list[StepItem]) -> int:
        """Make one part of the collected one-token items; returns the next free row."""
        if not singles:
            return first
        tables = [blocks_of(item) for item in singles]
        lengths = [item.position + 1 for item in singles]
        longest = max(lengths)
        most = max(map(len, tables))
        # A short table is filled up with its own last block; the mask hides what is read there.
        blocks = [table + table[-1:] * (most - len(table)) for table in tables]
        mask = None
        if min(lengths) != longest:
            seen = torch.arange(longest) < torch.tensor(lengths)[:, None]
            mask = torch.zeros(seen.shape, dtype=self._pool.dtype)
            mask = mask.masked_fill_(~seen, -torch.inf)[:, None, None]
        flat = torch.tensor(blocks).flatten()
        self._parts.append(_Part(first, len(singles), 1, longest, flat, mask))
        first += len(singles)
        singles.clear()
        return first

    def _prompt(self, first: int, item: StepItem) -> _Part:
        tokens = len(item.token_ids)
        length = item.position + tokens
        mask = None
        if item.position:
            rows = torch.arange(item.position, length)[:, None]
            mask = torch.zeros(tokens, length, dtype=self._pool.dtype)
            mask = mask.masked_fill_(torch.arange(length) > rows, -torch.inf)
        return _Part(first, 1, tokens, length, torch.tensor(blocks_of(item)), mask)
