"""How well this run was measured."""

from __future__ import annotations

from promptpath.analysis.scan import Scan
from promptpath.analysis.stats import ascending, quantile
from promptpath.model.report import Instrument, StampErrors
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_US


def judge_instrument(trace: Trace, scan: Scan) -> Instrument:
    """The clock, the share of certified stamps and the stamps' errors over all events."""
    errors = ascending(scan.error_ns)
    return Instrument(
        clock=trace.clock.source,
        exact_ratio=round(scan.exact / len(errors), 4) if errors else None,
        error_us=StampErrors(
            p50=round(quantile(errors, 0.5) / NS_PER_US, 1),
            p99=round(quantile(errors, 0.99) / NS_PER_US, 1),
        )
        if errors
        else None,
    )
