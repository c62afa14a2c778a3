"""A Llama decoder on a flat batch of tokens: prompts' pieces and single tokens side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from reference_server.compute.attention import Attention
from reference_server.compute.checkpoint import Checkpoint, Stored
from reference_server.compute.linear import (
    Linear,
    exact_linear,
    fast_linear,
    head_linear,
    join,
    plain_linear,
)
from reference_server.compute.rope import rotate_, rotations

Mode = Literal["fast", "fp32", "exact"]
"""fast: bfloat16 and four bits; fp32: float32 with torch's own kernels; exact: float32 in which a
token's result depends on its own sequence alone."""


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_norm: Tensor
    qkv: Linear
    output: Linear
    ffn_norm: Tensor
    gate_up: Linear
    down: Linear


class Llama:
    """The weights, ready to compute. The residual stream is float32 in every mode."""

    def __init__(self, checkpoint: Checkpoint, mode: Mode) -> None:
        """Raises ModelFileError when a tensor is missing or has a wrong shape."""
        config = checkpoint.config
        self.config = config
        self.dtype = torch.bfloat16 if mode == "fast" else torch.float32
        make: dict[Mode, Callable[[Stored], Linear]]
        make = {"fast": fast_linear, "fp32": plain_linear, "exact": exact_linear}
        self._embedding = checkpoint.dense("token_embd.weight", config.vocab, config.width)
        self._embedding = self._embedding.to(self.dtype)
        self._layers = [_layer(checkpoint, n, make[mode]) for n in range(config.layers)]
        self._norm = _norm_weight(checkpoint, "output_norm.weight")
        head = self._embedding
        if "output.weight" in checkpoint:
            head = checkpoint.dense("output.weight", config.vocab, config.width).to(self.dtype)
        self._head = head_linear(head) if mode == "fast" else make[mode](head)
        self._turns = rotations(config)
        # hypot(norm, this) is sqrt(width * (mean square + eps)).
        self._epsilon = torch.tensor(math.sqrt(config.width * config.norm_eps))

    def forward(self, tokens: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """The residual stream after the last layer, `(tokens, width)`, float32.

        `attention.begin` has been called for these tokens.
        """
        config = self.config
        queries = config.heads * config.head_dim
        rotated = config.heads + config.kv_heads
        stream = self._embedding.index_select(0, tokens).float()
        turns = self._turns.index_select(0, positions)
        for number, layer in enumerate(self._layers):
            heads = layer.qkv(self._normal(stream, layer.attention_norm))
            heads = heads.view(-1, rotated + config.kv_heads, config.head_dim)
            rotate_(heads[:, :rotated], turns)
            attention.write(number, heads[:, config.heads :])
            asked = heads[:, : config.heads].view(
                -1, config.kv_heads, config.group, config.head_dim
            )
            answer = attention.attend(number, asked).reshape(-1, queries)
            stream += layer.output(answer)
            both = layer.gate_up(self._normal(stream, layer.ffn_norm))
            gate, up = both[:, : config.ffn], both[:, config.ffn :]
            stream += layer.down(F.silu(gate).mul_(up))
        return stream

    def logits(self, stream: Tensor) -> Tensor:
        """The next token's logits for rows of the residual stream, `(rows, vocab)`, float32."""
        return self._head(self._normal(stream, self._norm)).float()

    def _normal(self, stream: Tensor, weight: Tensor) -> Tensor:
        """RMS norm in the kernel's type; `weight` carries sqrt(width), see `_norm_weight`.

        Measured for 1 x 576: 7.4 us in this form, 10 us as F.rms_norm.
        """
        length = torch.linalg.vector_norm(stream, 2, -1, True)
        return (stream / torch.hypot(length, self._epsilon) * weight).to(self.dtype)


def _norm_weight(checkpoint: Checkpoint, name: str) -> Tensor:
    width = checkpoint.config.width
    return checkpoint.dense(name, width) * math.sqrt(width)


def _layer(checkpoint: Checkpoint, number: int, make: Callable[[Stored], Linear]) -> _Layer:
    config = checkpoint.config
    width, ffn = config.width, config.ffn
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim

    def part(name: str, rows: int, columns: int) -> Stored:
        return checkpoint.tensor(f"blk.{number}.{name}.weight", rows, columns)

    q, k = part("attn_q", queries, width), part("attn_k", keys, width)
    v = part("attn_v", keys, width)
    return _Layer(
        attention_norm=_norm_weight(checkpoint, f"blk.{number}.attn_norm.weight"),
        qkv=make(join([q, k, v])),
        output=make(part("attn_output", width, queries)),
        ffn_norm=_norm_weight(checkpoint, f"blk.{number}.ffn_norm.weight"),
        gate_up=make(join([part("ffn_gate", ffn, width), part("ffn_up", ffn, width)])),
        down=make(part("ffn_down", width, ffn)),
    )
