"""Bars, the machine's state, the JSON file and the table: what all benchmarks share."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

RESULTS = Path(__file__).parent / "results"
_PACKAGES = (
    *("promptpath", "h11", "h2", "aioquic", "dnspython"),
    *("tiktoken", "rich", "typer", "httpx-sse", "hypercorn"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One number and what it must be."""

    name: str
    value: float | None
    """None when it could not be measured."""
    unit: str
    limit: float | None = None
    """None: stated, not judged."""
    better: Literal["<=", ">="] = "<="

    @property
    def passed(self) -> bool | None:
        """None where nothing is judged; a judged number that is missing has not passed."""
        if self.limit is None:
            return None
        if self.value is None:
            return False
        return self.value <= self.limit if self.better == "<=" else self.value >= self.limit


def percentile(values: Sequence[float], percent: float) -> float | None:
    """The nearest-rank percentile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-len(ordered) * percent // 100) - 1))]


def median(values: Sequence[float]) -> float | None:
    """The median; None of nothing."""
    return statistics.median(values) if values else None


def machine() -> dict[str, Any]:
    """What the numbers depend on."""
    return {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def run_first() -> bool:
    """Make this process SCHED_FIFO, so that a busy machine looks idle to it; False where that is
    not allowed. Threads and children inherit it."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
        return True
    return False


def publish(name: str, bars: Sequence[Bar], runs: Any, before: dict[str, Any]) -> int:
    """Write the JSON, print the table; the exit status: 1 when a bar was missed.

    `before` is `machine()` from before the runs, so that both loads are kept.
    """
    RESULTS.mkdir(exist_ok=True)
    document = {
        "benchmark": name,
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": before,
        "load_after": os.getloadavg(),
        "bars": [{**asdict(bar), "passed": bar.passed} for bar in bars],
        "runs": runs,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    load = f"load {before['load'][0]:.1f} -> {os.getloadavg()[0]:.1f}, {before['cpus']} CPUs"
    print(f"\n{name} ({load})")
    for bar in bars:
        print(_line(bar))
    return int(any(bar.passed is False for bar in bars))


def _line(bar: Bar) -> str:
    value = "not measured" if bar.value is None else f"{bar.value:.4g} {bar.unit}"
    limit = "" if bar.limit is None else f"{bar.better} {bar.limit:g} {bar.unit}"
    verdict = {None: "stated", True: "pass", False: "MISSED"}[bar.passed]
    return f"  {bar.name:<52} {value:>16}  {limit:<16} {verdict}"
