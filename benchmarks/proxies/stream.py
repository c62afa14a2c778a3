"""One stream through a product: sent by the reference server with its stamps, traced by the tool,
judged without the stamps and with them; and the active test beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.tool import ROOT, RUN_S, ToolFailedError
from promptpath.analysis.buffering.evidence import Evidence
from promptpath.analysis.buffering.from_trace import trace_evidence
from promptpath.analysis.buffering.judge import judge
from promptpath.analysis.buffering.judgement import Judgement
from promptpath.analysis.facts import rtt_ns, tcp_counter
from promptpath.analysis.view import measure
from promptpath.model.codec import decode_document

_PLAIN = {"no_buffering_header": 0, "no_transform_header": 0}
"""Without the headers that ask boxes to stand aside: as most servers send a stream."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What the server sends: equal events at an even pace, the hardest case for a judge."""

    events: int
    event_bytes: int
    gap_ms: int

    @property
    def query(self) -> str:
        """The knobs of the server's calibration stream."""
        size, gap = self.event_bytes, self.gap_ms
        knobs = {"events": self.events, "min_bytes": size, "max_bytes": size}
        return urlencode({**knobs, "min_gap_ms": gap, "max_gap_ms": gap, **_PLAIN})


SMALL = Stream(events=160, event_bytes=251, gap_ms=20)
"""40 kB in 3.2 s, as a model sends tokens: ten nginx buffers, two TLS records."""
LARGE = Stream(events=300, event_bytes=997, gap_ms=10)
"""300 kB in 3 s, for what begins at 512 bytes a write and lets go at 64 KiB (Caddy's gzip)."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """One stream's judgements."""

    passive: Judgement
    """From arrivals alone."""
    stamped: Judgement
    """With the server's stamps; its hold is measured, not estimated."""


def watch(url: str, stream: Stream, scratch: Path, *options: str) -> Verdicts:
    """Trace the stream through what stands at `url`. Raises ToolFailedError when it did not come
    whole."""
    saved = scratch / "trace.json"
    saved.unlink(missing_ok=True)
    target = f"{url}/promptpath/calibrate?{stream.query}"
    said = _tool("trace", target, "-o", str(saved), *options)
    if not saved.exists():
        raise ToolFailedError(f"no document from {target}:\n{said[-3000:]}")
    evidence = _evidence(saved.read_bytes())
    if evidence is None or not evidence.events.stamped:
        raise ToolFailedError(f"no stamped stream from {target}:\n{said[-3000:]}")
    return Verdicts(judge(evidence, use_stamps=False), judge(evidence, use_stamps=True))


def _evidence(document: bytes) -> Evidence | None:
    decoded = decode_document(document)
    trace = decoded.runs[0].trace
    measured = measure(trace, decoded.plan)
    return trace_evidence(
        trace,
        measured.scan,
        measured.headers,
        rtt_ns=rtt_ns(measured.facts, measured.conn),
        mtu=tcp_counter(measured.facts, "pmtu_bytes", measured.conn),
    )


def calibrate(url: str, *options: str) -> dict[str, Any]:
    """The verdict of `promptpath calibrate`, as it stands in its document."""
    said = _tool("calibrate", url, "--json", *options)
    try:
        runs = json.loads(said)["runs"]
    except (ValueError, KeyError) as error:
        raise ToolFailedError(f"no calibration of {url}:\n{said[-3000:]}") from error
    verdicts: list[dict[str, Any]] = [v for run in runs for v in run["report"]["verdicts"]]
    for verdict in verdicts:
        if verdict["question"] == "calibration":
            return verdict
    raise ToolFailedError(f"no verdict for {url}")


def _tool(*arguments: str) -> str:
    line = [sys.executable, "-m", "promptpath", *arguments, "--proxy", "none"]
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S, cwd=ROOT
    )
    return done.stdout or done.stderr
