"""Units: parse what a person types, print what a person reads. Everything between is integer ns."""

from __future__ import annotations

import re

from promptpath.errors import UsageError

Ns = int
"""Nanoseconds, since the run began (an instant, `*_at_ns`) or as a length (`*_ns`)."""

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ns|us|ms|s|m|h)?\s*$")
_DURATION_NS = {
    "ns": 1,
    "us": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(b|k|kb|kib|m|mb|mib|g|gb|gib)?\s*$", re.IGNORECASE)
_SIZE_BYTES = {
    "b": 1,
    "k": 1_000,
    "kb": 1_000,
    "kib": 1_024,
    "m": 1_000_000,
    "mb": 1_000_000,
    "mib": 1_048_576,
    "g": 1_000_000_000,
    "gb": 1_000_000_000,
    "gib": 1_073_741_824,
}


def parse_duration_ns(text: str) -> Ns:
    """Read "30", "30s", "250ms", "1.5m" as nanoseconds; a bare number is seconds.

    Raises UsageError for anything else and for zero.
    """
    match = _DURATION.match(text)
    value = round(float(match[1]) * _DURATION_NS[match[2] or "s"]) if match else 0
    if value <= 0:
        raise UsageError(
            f"not a duration: {text!r}",
            expected="a positive number with ns, us, ms, s, m or h (seconds when bare)",
            hint="for example 30s or 250ms",
        )
    return value


def parse_size_bytes(text: str) -> int:
    """Read "64", "8k", "16MiB" as bytes; raises UsageError for anything else and for zero."""
    match = _SIZE.match(text)
    value = round(float(match[1]) * _SIZE_BYTES[(match[2] or "b").lower()]) if match else 0
    if value <= 0:
        raise UsageError(
            f"not a size: {text!r}",
            expected="a positive number of bytes with k, MB, MiB ... or bare",
            hint="for example 16MiB",
        )
    return value


def to_ms(duration_ns: Ns) -> float:
    """Nanoseconds as milliseconds, rounded to the microsecond (kernel stamps are not finer)."""
    return round(duration_ns / NS_PER_MS, 3)


def opt_ms(duration_ns: Ns | None) -> float | None:
    """`to_ms` where a value may be missing."""
    return None if duration_ns is None else to_ms(duration_ns)


def format_duration(duration_ns: Ns) -> str:
    """A length for people, three significant figures: "412 us", "12.3 ms", "1.84 s", "2m 05s"."""
    sign, value = ("-", -duration_ns) if duration_ns < 0 else ("", duration_ns)
    if value < NS_PER_US:
        return f"{sign}{value} ns"
    if value < NS_PER_MS:
        return f"{sign}{value / NS_PER_US:.0f} us"
    if value < NS_PER_S:
        ms = value / NS_PER_MS
        digits = 2 if ms < 10 else 1 if ms < 100 else 0
        return f"{sign}{ms:.{digits}f} ms"
    seconds = value / NS_PER_S
    if seconds < 100:
        return f"{sign}{seconds:.{2 if seconds < 10 else 1}f} s"
    whole = round(seconds)
    return f"{sign}{whole // 60}m {whole % 60:02d}s"


def format_ms(duration_ms: float) -> str:
    """`format_duration` for a value of the report, which is in milliseconds."""
    return format_duration(round(duration_ms * NS_PER_MS))


def format_bytes(size_bytes: int) -> str:
    """A size for people: "312 B", "4.1 KiB", "2.0 MiB"."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    value = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024 or unit == "GiB":
            break
    return f"{value:.1f} {unit}"
