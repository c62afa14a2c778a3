"""Can the stamps that the sender put on its events tell of a hold at all?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from promptpath.model.units import NS_PER_MS, Ns

COARSE_NS = 100 * NS_PER_MS
"""Stamps that are all multiples of it round by more than a healthy path may hold (20 ms and half a
round trip, see hold.TOLERATED_NS); the next finer decimal clock, 10 ms, rounds by less."""


def tells_holds(stamps: Sequence[Ns]) -> bool:
    """Whether gaps between these stamps may be compared with gaps between arrivals; negative ones
    are missing.

    Not those of a clock of whole seconds or tenths (a ping comment without a fraction, Replicate's
    ids), and not one value in most events: that is when the answer was begun (as OpenAI's
    `created`), and would make every event look held since then. A server that sends most events in
    one tick of its clock gives no rhythm to compare either.
    """
    known = [stamp for stamp in stamps if stamp >= 0]
    if len(known) < 2 or not any(stamp % COARSE_NS for stamp in known):
        return False
    return 2 * max(Counter(known).values()) <= len(known)
