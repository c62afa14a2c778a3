"""Matrix products: every private torch operator stands here, is probed, and has a fallback.

Which kernel for how many rows was measured on two Zen 4 cores with all 30 layers of SmolLM2-135M,
ms for 1 / 4 / 8 / 12 / 16 rows: four-bit 4.5 / 6.7 / 13.3 / 16.3 / 21, prepacked bfloat16 11.8 /
14.6 / 14.6 / 13.1 / 15.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from reference_server.compute.checkpoint import GROUP, Nibbles, Stored

Linear = Callable[[Tensor], Tensor]
"""(rows, in) to (rows, out); the input's type is the kernel's."""

MOST_NIBBLE_ROWS = 8
"""Up to so many rows the four-bit kernel is the faster one (see above)."""

TILE_ROWS = 16
"""Rows of every product in the deterministic mode, filled up with zeros: a matrix library picks its
kernel, and so the order of its additions, by the shape. A choice, not a measurement."""


def join(parts: list[Stored]) -> Stored:
    """Matrices one below the other; four-bit only when all are."""
    nibbles = [part for part in parts if isinstance(part, Nibbles)]
    if len(nibbles) == len(parts):
        return Nibbles(
            torch.cat([part.numbers for part in nibbles]),
            torch.cat([part.scale for part in nibbles]),
            torch.cat([part.minimum for part in nibbles]),
        )
    return torch.cat([part.dense() if isinstance(part, Nibbles) else part for part in parts])


def exact_linear(weight: Stored) -> Linear:
    """float32, in tiles of a fixed shape: a row's result does not depend on the other rows."""
    dense = weight.dense() if isinstance(weight, Nibbles) else weight

    def apply(x: Tensor) -> Tensor:
        rows = x.shape[0]
        padded = F.pad(x, (0, 0, 0, -rows % TILE_ROWS))
        return torch.cat([F.linear(tile, dense) for tile in torch.split(padded, TILE_ROWS)])[:rows]

    return apply


def plain_linear(weight: Stored) -> Linear:
    """float32 and whatever kernel torch picks."""
    dense = weight.dense() if isinstance(weight, Nibbles) else weight
    return lambda x: F.linear(x, dense)


def fast_linear(weight: Stored) -> Linear:
    """bfloat16: the file's own four-bit numbers for few rows, prepacked bfloat16 for more."""
    if not isinstance(weight, Nibbles):
        return _bf16_linear(weight.bfloat16())
    many = _bf16_linear(weight.dense().bfloat16())
    if not nibbles_work() or not _fits(weight.numbers):
        return many
    few = _nibble_linear(weight)
    return lambda x: few(x) if x.shape[0] <= MOST_NIBBLE_ROWS else many(x)


def head_linear(embedding: Tensor) -> Linear:
    """The product with a bfloat16 embedding, which is in memory anyway.

    For one row the plain kernel without oneDNN reads memory at full speed (measured: 1.7 ms
    against 3.3 to 6 ms with oneDNN for 49,152 x 576), for more the prepacked one is faster.
    """
    many = _bf16_linear(embedding)

    def apply(x: Tensor) -> Tensor:
        if x.shape[0] > 1:
            return many(x)
        torch._C._set_mkldnn_enabled(False)
        try:
            return F.linear(x, embedding)
        finally:
            torch._C._set_mkldnn_enabled(True)

    return apply


def _bf16_linear(weight: Tensor) -> Linear:
    if not prepacking_works():
        return lambda x: F.linear(x, weight)
    ops: Any = torch.ops.mkldnn
    packed = ops._reorder_linear_weight(weight, None)
    return lambda x: ops._linear_pointwise(x, packed, None, "none", [], "")


def _nibble_linear(weight: Nibbles) -> Linear:
    ops: Any = torch.ops.aten
    packed = ops._convert_weight_to_int4pack_for_cpu(weight.numbers.int(), 1)
    # The kernel computes (number - 8) * scale + zero.
    zero = weight.minimum + 8 * weight.scale
    scales = torch.stack((weight.scale.t(), zero.t()), dim=-1).contiguous().bfloat16()
    return lambda x: ops._weight_int4pack_mm_for_cpu(x, packed, GROUP, scales)


def _fits(numbers: Tensor) -> bool:
    """The four-bit kernel works in blocks of 16 rows (torch: `int4pack ... N divisible by 16`)."""
    return numbers.shape[0] % 16 == 0 and numbers.shape[1] % GROUP == 0


@cache
def nibbles_work() -> bool:
    """Whether torch's four-bit product exists here and gives what it should."""
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(0, 16, (64, 64), generator=generator).byte()
    scale = torch.rand(64, 2, generator=generator)
    weight = Nibbles(numbers, scale, -8 * scale)
    return _agrees(lambda: _nibble_linear(weight), weight.dense())


@cache
def prepacking_works() -> bool:
    """Whether oneDNN's prepacked product exists here and gives what it should."""
    weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).bfloat16()
    ops: Any = torch.ops.mkldnn

    def build() -> Linear:
        packed = ops._reorder_linear_weight(weight, None)
        return lambda x: ops._linear_pointwise(x, packed, None, "none", [], "")

    return _agrees(build, weight.float())


def _agrees(build: Callable[[], Linear], weight: Tensor) -> bool:
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
    try:
        result = build()(x).float()
    except (AttributeError, RuntimeError, NotImplementedError):
        return False
    expected = F.linear(x.float(), weight)
    # bfloat16 keeps 8 bits: 64 products of it stay well within 5 % of the largest result.
    return bool((result - expected).abs().max() <= 0.05 * expected.abs().max())
