"""Matrix products: every kernel against the plain one."""

from __future__ import annotations

import pytest

from tests.reference_server.compute import torch_needed  # noqa: F401  # isort: skip
import torch
import torch.nn.functional as F

from reference_server.compute import linear
from reference_server.compute.checkpoint import Nibbles
from reference_server.compute.linear import Linear

GENERATOR = torch.Generator().manual_seed(3)


def nibbles(rows: int, columns: int) -> Nibbles:
    """A random four-bit matrix."""
    numbers = torch.randint(0, 16, (rows, columns), generator=GENERATOR).byte()
    scale = torch.rand(rows, columns // 32, generator=GENERATOR)
    return Nibbles(numbers, scale, -7 * scale)


def error_of(product: Linear, weight: torch.Tensor, rows: int) -> float:
    """The largest error against float32, as a share of the largest result."""
    x = torch.randn(rows, weight.shape[1], generator=GENERATOR).bfloat16()
    expected = F.linear(x.float(), weight)
    return float((product(x).float() - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("rows", [1, 2, linear.MOST_NIBBLE_ROWS, linear.MOST_NIBBLE_ROWS + 1, 40])
def test_the_fast_product_is_right_on_both_sides_of_the_switch(rows: int) -> None:
    weight = nibbles(96, 128)
    # bfloat16 keeps 8 bits: a rounding is at most 2**-9 of a number, and both factors have one.
    assert error_of(linear.fast_linear(weight), weight.dense(), rows) < 0.02


def test_rows_that_do_not_fit_the_four_bit_kernel_are_computed_all_the_same() -> None:
    weight = nibbles(20, 64)
    assert error_of(linear.fast_linear(weight), weight.dense(), 3) < 0.02


@pytest.mark.parametrize("missing", ["nibbles_work", "prepacking_works"])
def test_without_a_private_operator_the_result_stays(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setattr(linear, missing, lambda: False)
    weight = nibbles(64, 64)
    for rows in (1, 20):
        assert error_of(linear.fast_linear(weight), weight.dense(), rows) < 0.02


def test_a_kernel_that_computes_something_else_is_not_taken() -> None:
    weight = torch.randn(64, 64, generator=GENERATOR)
    right, wrong = weight.bfloat16(), weight.bfloat16().flip(0)
    assert linear._agrees(lambda: lambda x: F.linear(x, right), weight)
    assert not linear._agrees(lambda: lambda x: F.linear(x, wrong), weight)

    def absent() -> Linear:
        raise AttributeError

    assert not linear._agrees(absent, weight)


@pytest.mark.parametrize("rows", [1, 5])
def test_the_head_is_right_for_one_row_and_for_more(rows: int) -> None:
    embedding = torch.randn(300, 64, generator=GENERATOR).bfloat16()
    assert error_of(linear.head_linear(embedding), embedding.float(), rows) < 0.02
    assert torch._C._get_mkldnn_enabled()


def test_an_exact_row_has_the_same_bits_whatever_stands_around_it() -> None:
    product = linear.exact_linear(torch.randn(80, 96, generator=GENERATOR))
    x = torch.randn(50, 96, generator=GENERATOR)
    together = product(x)
    for row in (0, 7, 15, 16, 49):
        assert torch.equal(product(x[row : row + 1])[0], together[row])
        assert torch.equal(product(x[row // 2 : row + 1])[-1], together[row])
