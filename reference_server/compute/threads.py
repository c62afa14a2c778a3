"""How many threads compute, and how they wait. No torch here: it reads this when it is imported."""

from __future__ import annotations

import os
from dataclasses import dataclass

_PASSIVE_CORES = 4
"""With so few cores, waiting threads sleep instead of spin. Measured on two cores with one busy
process beside the engine, p90 of a step: 1,035 ms by default, 41 ms so."""

NARROW_ROWS = 4
"""Up to so many rows a step's layers take `Threads.narrow`. Measured on two cores, ms a step with
one / two threads: 1 row 15.0 / 15.7, 4 rows 22.5 / 20.6, 8 rows 38 / 29, 16 rows 54 / 42, a prompt
of 256 346 / 210; the head alone 3.7 / 2.0."""


@dataclass(frozen=True, slots=True)
class Threads:
    """How many threads compute."""

    narrow: int
    """The layers of a step of few rows: waking another thread costs more than it does."""
    wide: int
    """All else."""

    def __str__(self) -> str:
        """For a person."""
        narrow = f"{self.narrow} thread" + ("s" if self.narrow > 1 else "")
        return narrow if self.wide == self.narrow else f"{narrow}, {self.wide} where it pays"


def prepare_threads(asked: int | None) -> Threads:
    """Choose, and set how the threads wait; only before torch is imported.

    One core is left to the rest, unless that leaves one: then both take part where it pays. With
    other numbers libgomp would end and start threads at each change of the number.
    """
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    if asked is not None:
        threads = Threads(asked, asked)
    elif cores == 2:
        threads = Threads(1, 2)
    else:
        threads = Threads(max(1, cores - 1), max(1, cores - 1))
    os.environ["OMP_NUM_THREADS"] = str(threads.wide)
    if cores <= _PASSIVE_CORES:
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    return threads
