"""An instant with its error."""

from __future__ import annotations

from dataclasses import dataclass

from promptpath.model.enums import Clock
from promptpath.model.units import Ns


@dataclass(frozen=True, slots=True)
class Stamp:
    """The instant at which bytes arrived or left: best estimate, and the interval that holds the
    truth. All three are nanoseconds since the run began.

    `exact` is a certificate, not a hope: the kernel stamped the one segment these bytes came in,
    so `at_ns` is the arrival itself and the interval is only the clock mapping's width
    (ARCHITECTURE.md, "Certified exactness").
    """

    at_ns: Ns
    """Best estimate."""
    lo_ns: Ns
    """The bytes cannot have arrived before."""
    hi_ns: Ns
    """The bytes cannot have arrived after."""
    clock: Clock
    """Who took it."""
    exact: bool
    """Certified by the segment counter."""

    @property
    def error_ns(self) -> Ns:
        """The farther end of the interval, as a distance from the estimate."""
        return max(self.at_ns - self.lo_ns, self.hi_ns - self.at_ns)


def user_stamp(at_ns: Ns, lo_ns: Ns | None = None) -> Stamp:
    """An instant read by us after the fact: the truth lies between `lo_ns` and now."""
    return Stamp(at_ns, at_ns if lo_ns is None else lo_ns, at_ns, Clock.USER, False)
