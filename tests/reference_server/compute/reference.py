"""The reference: a Llama's forward pass over a whole sequence, without cache, batch or tricks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from reference_server.compute.checkpoint import Checkpoint


def reference_logits(checkpoint: Checkpoint, tokens: list[int]) -> Tensor:
    """The logits after each token, float32, `(tokens, vocab)`."""
    config = checkpoint.config
    width, size = config.width, config.head_dim
    queries, keys = config.heads * size, config.kv_heads * size

    def norm(x: Tensor, name: str) -> Tensor:
        weight = checkpoint.dense(f"{name}.weight", width)
        return F.rms_norm(x, (width,), weight, config.norm_eps)

    embedding = checkpoint.dense("token_embd.weight", config.vocab, width)
    x = embedding[torch.tensor(tokens)]
    for layer in range(config.layers):
        at = f"blk.{layer}."

        def product(y: Tensor, name: str, rows: int, at: str = at) -> Tensor:
            return F.linear(y, checkpoint.dense(f"{at}{name}.weight", rows, y.shape[-1]))

        y = norm(x, at + "attn_norm")
        q = _turn(product(y, "attn_q", queries).view(-1, config.heads, size), config.rope_theta)
        k = _turn(product(y, "attn_k", keys).view(-1, config.kv_heads, size), config.rope_theta)
        v = product(y, "attn_v", keys).view(-1, config.kv_heads, size)
        answer = torch.empty_like(q)
        for head in range(config.heads):
            shared = head // config.group
            score = q[:, head] @ k[:, shared].T / size**0.5
            future = torch.ones_like(score, dtype=torch.bool).triu(1)
            weight = score.masked_fill(future, -torch.inf).softmax(-1)
            answer[:, head] = weight @ v[:, shared]
        x = x + product(answer.flatten(1), "attn_output", width)
        y = norm(x, at + "ffn_norm")
        inner = F.silu(product(y, "ffn_gate", config.ffn)) * product(y, "ffn_up", config.ffn)
        x = x + product(inner, "ffn_down", width)
    return F.linear(norm(x, "output_norm"), embedding)


def _turn(heads: Tensor, theta: float) -> Tensor:
    count, _, size = heads.shape
    speed = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = torch.arange(count, dtype=torch.float64)[:, None] * speed
    cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]
    even, odd = heads[..., 0::2], heads[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def greedy(checkpoint: Checkpoint, prompt: list[int], count: int) -> list[int]:
    """The answer, every token computed from the start."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(reference_logits(checkpoint, tokens)[-1].argmax()))
    return tokens[len(prompt) :]
