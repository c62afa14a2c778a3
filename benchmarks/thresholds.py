"""How much do the buffering answers hang on their thresholds?

    python -m benchmarks.thresholds FILE.jsonl.gz ...

Every threshold times 0.7 to 1.4, one at a time: how many recordings are still right. Then, leaving
out one
configuration after the other: each threshold as it suits all the others best, judged on the one
left out. Passive answers; half a minute for 600 recordings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from benchmarks.recordings import Recording, read_recordings
from benchmarks.signatures import SAME
from promptpath.analysis.buffering import (
    batches,
    bursts,
    hold,
    layers,
    passive,
    shape,
    stamped,
    thresholds,
)
from promptpath.analysis.buffering.judge import judge

MODULES: tuple[ModuleType, ...] = (
    batches,
    bursts,
    hold,
    layers,
    passive,
    shape,
    stamped,
    thresholds,
)
NAMES = (
    "SINGLE",
    "COLLECTED",
    "MOST",
    "NOTABLE",
    "NEARLY_ALL",
    "STEADY",
    "HARMLESS_NS",
    "DRAIN_NS",
    "LOSSY",
    "FEW_FULL",
    "ALONE",
    "DISTINCT",
    "TLS_BIG",
    "SILENCE_NS",
    "TOLERATED_NS",
    "FULL_SEGMENT",
)
"""Counts of events are left out: they are no measures."""
FACTORS = (0.7, 0.85, 1.0, 1.2, 1.4)


@contextmanager
def scaled(factors: dict[str, float]) -> Iterator[None]:
    """These thresholds times these factors, wherever they are used."""
    before = [(m, n, m.__dict__[n]) for m in MODULES for n in factors if n in m.__dict__]
    for module, name, value in before:
        module.__dict__[name] = value * factors[name]
    try:
        yield
    finally:
        for module, name, value in before:
            module.__dict__[name] = value


def right(recording: Recording) -> bool:
    """The passive answer is the truth's."""
    answer = judge(recording.evidence, use_stamps=False).answer.value
    return SAME.get(answer, answer) == recording.truth


def main(arguments: list[str]) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thresholds", description=__doc__)
    parser.add_argument("file", type=Path, nargs="+")
    found = [r for path in parser.parse_args(arguments).file for r in read_recordings(path)]
    recordings = [recording for recording in found if recording.truth is not None]
    table: dict[str, dict[float, list[bool]]] = {}
    for name in NAMES:
        table[name] = {}
        for factor in FACTORS:
            with scaled({name: factor}):
                table[name][factor] = [right(recording) for recording in recordings]
        counts = "  ".join(f"{factor:g}: {sum(row)}" for factor, row in table[name].items())
        print(f"{name:<14} {counts}")
    print(f"left out one configuration after the other: {left_out(recordings, table)}")
    return 0


def left_out(recordings: list[Recording], table: dict[str, dict[float, list[bool]]]) -> str:
    """How many are right with thresholds chosen without their own configuration."""
    configs = [recording.config for recording in recordings]
    hits = 0
    for config in sorted(set(configs)):
        others = [index for index, name in enumerate(configs) if name != config]
        chosen = {
            name: max(FACTORS, key=lambda f: (sum(rows[f][index] for index in others), -abs(f - 1)))
            for name, rows in table.items()
        }
        with scaled(chosen):
            hits += sum(right(r) for r in recordings if r.config == config)
    return f"{hits} of {len(recordings)} ({100 * hits / len(recordings):.1f} %)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
