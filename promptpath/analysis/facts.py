"""Facts by key, read with suspicion: a saved trace is a file somebody hands us, so a fact's value
may have any JSON shape. Whatever has not the shape of `model.names` reads as missing.
"""

from __future__ import annotations

import math

from promptpath.model.names import QUIC_RTT, TCP_INFO, TCP_RTT
from promptpath.model.rows import Json
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_US, Ns

Record = dict[str, Json]


def number(value: Json) -> float | None:
    """A finite number, or None; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def whole(value: Json) -> int | None:
    """A number as a whole number, or None."""
    found = number(value)
    return None if found is None else round(found)


def text(value: Json) -> str | None:
    """A non-empty string, or None."""
    return value if isinstance(value, str) and value else None


class Facts:
    """The facts of one trace by key, in order of recording."""

    def __init__(self, trace: Trace) -> None:
        self._by_key: dict[str, list[Json]] = {}
        for fact in trace.facts:
            self._by_key.setdefault(fact.key, []).append(fact.value)

    def all(self, key: str) -> list[Json]:
        """All values of a key."""
        return self._by_key.get(key, [])

    def last(self, key: str) -> Json:
        """The last value of a key, or None."""
        values = self._by_key.get(key)
        return values[-1] if values else None

    def records(self, key: str) -> list[Record]:
        """All values of a key that are objects."""
        return [value for value in self.all(key) if isinstance(value, dict)]

    def record(self, key: str) -> Record:
        """The last value of a key that is an object; empty when there is none."""
        records = self.records(key)
        return records[-1] if records else {}

    def text(self, key: str) -> str | None:
        """The last value of a key where it is a string."""
        return text(self.last(key))

    def whole(self, key: str) -> int | None:
        """The last value of a key where it is a number."""
        return whole(self.last(key))

    def headers(self, key: str) -> dict[str, str]:
        """A fact of header pairs as a dict; repeated names are joined as RFC 9110, 5.3 says."""
        found: dict[str, str] = {}
        pairs = self.last(key)
        for pair in pairs if isinstance(pairs, list) else ():
            if isinstance(pair, list) and len(pair) == 2 and all(isinstance(p, str) for p in pair):
                name = pair[0].lower()
                found[name] = f"{found[name]}, {pair[1]}" if name in found else pair[1]
        return found


def rtt_ns(facts: Facts, conn: int | None = None) -> Ns | None:
    """The round-trip time to the TCP peer (which may be a proxy): the smallest the kernel saw, as a
    queue can only add; over QUIC the smallest of our packet log. None where neither says anything.
    `conn` leaves other connections out."""
    seen = [] if facts.all(TCP_INFO) else [whole(r.get("rtt_ns")) for r in facts.records(TCP_RTT)]
    for snapshot in _snapshots(facts, conn):
        micros = whole(snapshot.get("min_rtt_us")) or whole(snapshot.get("rtt_us"))
        if micros:
            seen.append(micros * NS_PER_US)
    for record in facts.records(QUIC_RTT):
        if conn is None or record.get("conn") in (None, conn):
            seen.append(whole(record.get("min_ns")))
    known = [value for value in seen if value is not None and value > 0]
    return min(known) if known else None


def tcp_counter(facts: Facts, name: str, conn: int | None = None) -> int | None:
    """The last value a TCP_INFO counter reached, or None where it was never read."""
    for snapshot in reversed(_snapshots(facts, conn)):
        value = whole(snapshot.get(name))
        if value is not None:
            return value
    return None


def _snapshots(facts: Facts, conn: int | None) -> list[Record]:
    return [r for r in facts.records(TCP_INFO) if conn is None or r.get("conn") in (None, conn)]
