"""Rotary position embedding (Su et al., arXiv:2104.09864) on adjacent pairs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reference_server.compute.config import ModelConfig, RopeScaling


def rotations(config: ModelConfig) -> Tensor:
    """`(context, 1, head_dim / 2)` complex: by what a pair at a position is turned."""
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    speed = config.rope_theta**-exponent
    if config.rope_scaling is not None:
        speed = _stretched(speed, config.rope_scaling)
    angle = torch.arange(config.context, dtype=torch.float64)[:, None] * speed
    return torch.polar(torch.ones_like(angle), angle).to(torch.complex64)[:, None]


def _stretched(speed: Tensor, scaling: RopeScaling) -> Tensor:
    """Llama 3.1: slow rotations get `factor` times slower, fast ones stay, smoothly in between."""
    turns = scaling.original_context * speed / (2 * math.pi)
    span = scaling.high_freq_factor - scaling.low_freq_factor
    smooth = ((turns - scaling.low_freq_factor) / span).clamp(0, 1)
    return speed * smooth + speed / scaling.factor * (1 - smooth)


def rotate_(heads: Tensor, turns: Tensor) -> None:
    """Turn `(tokens, heads, head_dim)` in place by `turns`, `(tokens, 1, head_dim / 2)`."""
    pairs = torch.view_as_complex(heads.float().view(*heads.shape[:-1], -1, 2))
    heads.copy_(torch.view_as_real(pairs * turns).flatten(-2))
