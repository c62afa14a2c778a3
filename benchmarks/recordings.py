"""Recordings of streams through proxies, one JSON document a line, as evidence for a verdict.

The fields (`result`): `reads` [kernel ms, user ms, bytes, segments, segments out of order,
pending bytes], `events` [number, sent ms, arrived ms, read], `chunk_sizes`, `h2_frames` [read,
size], `tls_records` [read, content type, size], `headers`, `t_headers_ms`, `tcp` (`min_rtt` in us,
`pmtu`). Times count from the moment the request was sent; the sender's clock is the client's.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from promptpath.analysis.buffering.evidence import MISSING, Events, Evidence, Reads
from promptpath.model.units import NS_PER_MS, NS_PER_US

_APPLICATION_DATA = 23
"""TLS content type (RFC 8446, 5.1)."""
WINDOW_WAIT_NS = 200 * NS_PER_MS
"""How long before its first event a window counts as asked for."""
_MAX_RTT_US = 1_000_000
"""Larger ones are the kernel's "unknown" (~0)."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded stream."""

    name: str
    """The recording and what was in the path."""
    config: str
    """The product and its configuration."""
    scenario: str
    truth: str | None
    truth_hold_p90_ms: float | None
    evidence: Evidence


def read_recordings(path: Path) -> Iterator[Recording]:
    """The streams of a .jsonl or .jsonl.gz file; lines about something else are passed over. Raises
    OSError, and ValueError for a line that is no recording."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for number, line in enumerate(lines, 1):
            try:
                document = json.loads(line)
                if (document.get("result") or {}).get("events") is not None:
                    yield _recording(document)
            except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: not a recording: {error!r}") from error


def window(recording: Recording, start: int, stop: int) -> Recording:
    """The events `start` to `stop` as a recording of their own, as if they had been the whole
    stream of a short answer; its truth is the whole recording's label."""
    evidence, events, reads = recording.evidence, Events(), Reads()
    first = evidence.events.read[start] if start else 0
    last = evidence.events.read[stop - 1]
    for name in ("number", "at_ns", "server_ns"):
        getattr(events, name).extend(getattr(evidence.events, name)[start:stop])
    events.read.extend(read - first for read in evidence.events.read[start:stop])
    for name in ("at_ns", "late_ns", "size", "segments", "ooo", "pending"):
        getattr(reads, name).extend(getattr(evidence.reads, name)[first : last + 1])
    asked = evidence.asked_ns if start == 0 else events.at_ns[0] - WINDOW_WAIT_NS
    share = (stop - start) / len(evidence.events)
    cut = replace(
        evidence,
        events=events,
        reads=reads,
        frames=_part(evidence.frames, start, stop, len(evidence.events)),
        records=_part(evidence.records, start, stop, len(evidence.events)),
        framed_events=stop - start,
        body_bytes=round(evidence.body_bytes * share),
        asked_ns=asked,
    )
    return replace(recording, evidence=cut)


def _part(sizes: tuple[int, ...], start: int, stop: int, events: int) -> tuple[int, ...]:
    """The frames that about belong to these events."""
    first, last = round(len(sizes) * start / events), round(len(sizes) * stop / events)
    return sizes[first : max(last, first + 1)]


def _recording(document: dict[str, Any]) -> Recording:
    config = document["config"]
    variants = (config.get(key) for key in ("link", "origin_variant", "client_variant"))
    config_name = str(config["name"])
    return Recording(
        name=f"{document.get('recording', '-')} {'/'.join([config_name, *filter(None, variants)])}",
        config=config_name,
        scenario=str(document.get("scenario", "-")),
        truth=document.get("truth"),
        truth_hold_p90_ms=document.get("truth_hold_p90_ms"),
        evidence=evidence_of(document["result"]),
    )


def evidence_of(result: dict[str, Any]) -> Evidence:
    """A recording's result as evidence."""
    rows = sorted(result["events"], key=lambda row: (row[2], row[0]))
    # The reads before the head's end brought no body.
    head_ms = result["t_headers_ms"] or 0.0
    reads = result["reads"]
    first = next((i for i, row in enumerate(reads) if row[0] >= head_ms - 1e-6), 0)
    first = min([first, *(row[3] for row in rows)])
    frames = list(result.get("chunk_sizes") or ())
    frames = frames or [row[1] for row in result.get("h2_frames") or () if row[1]]
    records = result.get("tls_records") or ()
    body = [r[2] for r in records if r[1] == _APPLICATION_DATA and r[0] >= first]
    return Evidence(
        events=_events(rows, first),
        reads=_reads(reads, first),
        frames=tuple(frames),
        records=tuple(body),
        framed_events=len(rows),
        body_bytes=int(result.get("body_decoded") or 0),
        headers={name.lower(): value for name, value in result["headers"]},
        asked_ns=0,
        head_ns=_ns(head_ms),
        rtt_ns=_rtt_ns(result),
        mtu=(result.get("tcp") or {}).get("pmtu"),
        certified=False,
    )


def _events(rows: list[list[Any]], first: int) -> Events:
    events = Events()
    for number, sent_ms, arrived_ms, read in rows:
        events.number.append(number)
        events.at_ns.append(_ns(arrived_ms))
        events.read.append(read - first)
        events.server_ns.append(_ns(sent_ms) if sent_ms is not None else MISSING)
    # A sender's clock has no zero in common with ours, and no time before it.
    lowest = min(events.server_ns, default=0)
    if lowest < 0 and MISSING not in events.server_ns:
        for index, value in enumerate(events.server_ns):
            events.server_ns[index] = value - lowest
    return events


def _reads(rows: list[list[Any]], first: int) -> Reads:
    reads = Reads()
    for row in rows[first:]:
        kernel_ms, user_ms, size, *counters = row
        segments, ooo, pending = [*counters, 0, 0, 0][:3] if counters else (0, 0, 0)
        reads.at_ns.append(_ns(kernel_ms))
        reads.late_ns.append(max(0, _ns(user_ms) - _ns(kernel_ms)))
        reads.size.append(size)
        reads.segments.append(segments)
        reads.ooo.append(ooo)
        reads.pending.append(pending)
    return reads


def _rtt_ns(result: dict[str, Any]) -> int:
    micros = (result.get("tcp") or {}).get("min_rtt") or 0
    return int(micros) * NS_PER_US if micros <= _MAX_RTT_US else 0


def _ns(ms: float) -> int:
    return round(ms * NS_PER_MS)
