"""One cell of the matrix: a product in a configuration over a protocol, with what was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.proxies.configurations import Configuration, Protocol
from benchmarks.proxies.stream import Verdicts, calibrate, watch
from promptpath.analysis.buffering.judgement import UNDECIDED, Judgement
from promptpath.model.units import to_ms
from tests.peers.certs import Certificates

HEALTHY = ("streaming", "server-batch")
TRIES = 2
"""A box holds every time, a busy machine does not."""
_HTTP = {Protocol.H1: "1.1", Protocol.H1_TLS: "1.1", Protocol.H2_TLS: "2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What the lab keeps of one run."""

    product: str
    version: str
    configuration: str
    setting: str
    protocol: str
    held_p90_ms: float
    """Truth: a tenth of the events were held so long, by the server's stamps."""
    tolerated_ms: float
    """Up to this a stream counts as streaming."""
    stamped: str
    """The verdict that sees the stamps, with its estimate."""
    passive: str
    """The verdict from arrivals alone."""
    active: str | None
    """The verdict of `promptpath calibrate`; None where it was not run."""
    cured_by: tuple[str, ...] = ()
    """The headers and variants that let the stream pass, by `promptpath calibrate`."""

    @property
    def held(self) -> bool:
        """The truth in a word."""
        return self.held_p90_ms > self.tolerated_ms

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Which verdicts say "held" where nothing was, or the reverse. An undecided answer names
        the test that decides: it is none."""
        said = {"stamped": self.stamped, "passive": self.passive}
        return tuple(name for name, answer in said.items() if self._is_wrong(answer))

    def _is_wrong(self, answer: str) -> bool:
        word = answer.split()[0]
        return word not in map(str, UNDECIDED) and (word in HEALTHY) == self.held

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        return {**asdict(self), "held": self.held, "disagreements": self.disagreements}


def from_json(kept: Mapping[str, Any]) -> Cell:
    """The cell of a results file; raises TypeError for a file of another shape."""
    fields = {name: kept[name] for name in kept if name not in ("held", "disagreements")}
    return Cell(**{**fields, "cured_by": tuple(fields.get("cured_by", ()))})


def run_cell(
    configuration: Configuration,
    protocol: Protocol,
    upstream: str,
    certificates: Certificates,
    scratch: Path,
    *,
    version: str,
    active: bool,
) -> Cell:
    """Start the product, watch one stream, calibrate if `active`, stop it. Raises ToolFailedError
    or PeerFailedError."""
    options = ["--http", _HTTP[protocol]]
    leaf = None if protocol is Protocol.H1 else certificates.good
    if leaf is not None:
        options += ["--cacert", str(certificates.ca)]
    encoding = ("--accept-encoding", "gzip") if configuration.compressed else ()
    with configuration.start(scratch, upstream, leaf) as url:
        verdicts = _better(
            watch(url, configuration.stream, scratch, *options, *encoding) for _ in range(TRIES)
        )
        found = calibrate(url, *options) if active else None
    return _cell(configuration, protocol, version, verdicts, found)


def _better(tries: Iterable[Verdicts]) -> Verdicts:
    """The first in which nothing was held; without one, that with the smaller hold."""
    best: Verdicts | None = None
    for each in tries:
        if best is None or _p90_ns(each) < _p90_ns(best):
            best = each
        if _p90_ns(best) <= best.stamped.tolerated_ns:
            break
    assert best is not None
    return best


def _p90_ns(verdicts: Verdicts) -> int:
    assert verdicts.stamped.hold is not None  # there were stamps
    return round(verdicts.stamped.hold.p90_ns)


def _cell(
    configuration: Configuration,
    protocol: Protocol,
    version: str,
    verdicts: Verdicts,
    found: dict[str, Any] | None,
) -> Cell:
    estimate = found["estimate"] if found else {}
    return Cell(
        product=configuration.product,
        version=version,
        configuration=configuration.name,
        setting=configuration.setting,
        protocol=protocol.value,
        held_p90_ms=round(to_ms(_p90_ns(verdicts)), 1),
        tolerated_ms=round(to_ms(verdicts.stamped.tolerated_ns), 1),
        stamped=_answer(verdicts.stamped),
        passive=_answer(verdicts.passive),
        active=_active(found) if found else None,
        cured_by=tuple(estimate.get("cured_by") or ()),
    )


def _answer(judgement: Judgement) -> str:
    words = [judgement.answer.value]
    if judgement.size_bytes is not None:
        words.append(f"{judgement.size_bytes} B")
    if judgement.period_ns is not None:
        words.append(f"{to_ms(judgement.period_ns):.0f} ms")
    return " ".join(words)


def _active(verdict: dict[str, Any]) -> str:
    estimate, words = verdict["estimate"], [verdict["answer"]]
    if estimate.get("buffer_bytes") is not None:
        words.append(f"{estimate['buffer_bytes']} B")
    if estimate.get("timer_ms") is not None:
        words.append(f"{estimate['timer_ms']:.0f} ms")
    if estimate.get("initial_hold_passed_bytes") is not None:
        held = estimate.get("initial_hold_held_bytes")
        words.append(f"{held}..{estimate['initial_hold_passed_bytes']} B")
    return " ".join(words)
