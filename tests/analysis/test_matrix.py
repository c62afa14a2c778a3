from __future__ import annotations

import random

from promptpath.analysis.matrix import ALPHA, METRICS, cell_of, compare, sentence
from promptpath.model.matrix import Difference, MatrixCell, MatrixRun


def cell(
    name: str, values: list[float], error: float = 0.01, metric: str = "ttft_ms", failed: int = 0
) -> MatrixCell:
    """A cell of these values, and so many failed runs."""
    runs = [
        MatrixRun(
            round=n,
            position=0,
            outcome="ok",
            reason=None,
            until_ms=None,
            metrics={metric: value},
            errors={metric: error},
        )
        for n, value in enumerate(values)
    ]
    runs += [
        MatrixRun(
            round=len(values) + n,
            position=0,
            outcome="failed",
            reason="quic: no answer",
            until_ms=300.0,
            metrics={},
            errors={},
        )
        for n in range(failed)
    ]
    return cell_of(name, {"http": name}, runs)


def test_a_clear_difference_is_called_and_said() -> None:
    cells = [cell("a", [10.0, 11, 12, 13, 14, 15]), cell("b", [20.0, 21, 22, 23, 24, 25])]
    (one,) = compare(cells)
    assert (one.difference, one.shift_ms, one.runs) == (Difference.HIGHER, 10.0, (6, 6))
    assert sentence(cells, [one]) == "b: TTFT 10.00 ms higher"


def test_a_significant_difference_smaller_than_the_error_is_not_called() -> None:
    low, high = [10.0 + n / 100 for n in range(6)], [10.2 + n / 100 for n in range(6)]
    (clear,) = compare([cell("a", low, 0.05), cell("b", high, 0.05)])
    (blurred,) = compare([cell("a", low, 0.15), cell("b", high, 0.15)])
    assert clear.difference is Difference.HIGHER
    assert blurred.p_holm <= ALPHA and blurred.difference is Difference.NONE


def test_too_few_runs_are_named_so_not_called_equal() -> None:
    cells = [cell("a", [1.0, 2, 3]), cell("b", [10.0, 11, 12])]
    comparisons = compare(cells)
    assert [one.difference for one in comparisons] == [Difference.TOO_FEW]
    assert "larger --repeat" in sentence(cells, comparisons)


def test_failed_runs_are_counted_with_their_cost_and_stand_in_no_median() -> None:
    cells = [cell("a", [10.0] * 5), cell("b", [10.0] * 2, failed=3), cell("c", [], failed=2)]
    comparisons = compare(cells)
    assert {one.cell for one in comparisons} == {"b"} and cells[1].medians == {"ttft_ms": 10.0}
    text = sentence(cells, comparisons)
    assert "b failed in 3 of 5 runs after 300.00 ms (quic: no answer)" in text
    assert "c failed in 2 of 2 runs" in text
    assert sentence([cells[2]], ()) == "no run of any cell could be measured"


def test_a_metric_that_one_side_lacks_is_not_compared() -> None:
    assert compare([cell("a", [1.0] * 7), cell("b", [1.0] * 7, metric="connect_ms")]) == ()


def test_equal_paths_are_seldom_called_different() -> None:
    """The chance over a whole matrix is alpha at most; 300 matrices of three comparisons."""
    source = random.Random(7)
    wrong = 0
    for _ in range(300):
        cells = [cell(name, [source.gauss(50, 5) for _ in range(7)], 0.0) for name in "abcd"]
        called = {one.difference for one in compare(cells)}
        wrong += bool(called & {Difference.LOWER, Difference.HIGHER})
    assert wrong / 300 <= ALPHA + 0.03


def test_every_metric_has_a_name() -> None:
    assert all(name.endswith("_ms") and title for name, title in METRICS.items())
