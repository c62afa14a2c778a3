from __future__ import annotations

import random

import pytest

from benchmarks.engine import PAIRS, PARTS, bars, off_by


def times(mean: float, spread: float, seed: int) -> list[float]:
    """So many times around `mean`."""
    dice = random.Random(seed)
    return [mean * dice.uniform(1 - spread, 1 + spread) for _ in range(PAIRS)]


def test_equal_times_are_equivalent_and_shifted_ones_are_not() -> None:
    cold = times(1000, 0.02, 1)
    assert off_by(cold, times(1000, 0.02, 2)) < 0.05
    assert off_by(cold, times(1100, 0.02, 2)) > 0.05
    assert off_by(cold, times(900, 0.02, 2)) > 0.05


def test_times_that_scatter_prove_nothing() -> None:
    assert off_by(times(1000, 0.4, 1), times(1000, 0.4, 2)) > 0.05


def test_a_missed_bar_is_seen() -> None:
    steps = {name: [10.0] for name in ("decode_1", "decode_4", "decode_16", "prefill_512")}
    speed = {**steps, "read_gb_s": [30.0]}
    cold = times(1000, 0.01, 1)
    runs = {
        "alone": speed,
        "speed": speed,
        "neighbour": {"step": [59.0] * 90 + [61.0] * 10},
        "joining": {"chunked": 351.0, "whole": 1000.0},
        "prefix": {"cold": cold, "hit": [240.0] * PAIRS, "salted": times(1000, 0.01, 2)},
        "difference": {"tokens": 240, "gaps": [0.1, 1.1], "error": 0.5},
    }
    assert set(runs) == set(PARTS)
    found = {bar.name: bar for bar in bars(runs)}
    missed = sorted(name for name, bar in found.items() if bar.passed is False)
    assert missed == [
        "longest gap of 4 streams, 1,024 tokens join",
        "widest gap of the two best logits there / kernels' error",
    ]
    assert found["decode 4, alone"].value == pytest.approx(400.0)
    assert found["prefill 512, as the server runs"].value == pytest.approx(51_200.0)
