"""Are certified stamps exact? tcpdump in the client's namespace is the judge.

    python -m benchmarks.accuracy            all variants
    python -m benchmarks.accuracy --gate     short, and only false certificates fail (CI)

A deterministic origin streams through the user-space link, 20 ms each way; the tool traces it with
its live view on a terminal, at normal priority. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import tool
from benchmarks.harness import Bar, machine, publish
from benchmarks.judge import (
    ClockLine,
    Judged,
    client_port,
    figures,
    judge,
    realtime_offset_ns,
    truths,
)
from tests.netns.link import DEVICE
from tests.netns.path import ShimPath
from tests.peers.capture import can_capture, capture, dropped, segments
from tests.peers.certs import Certificates, make_certificates

DELAY_MS = 20.0
CERTIFIED_SHARE = 0.98
WORST_US = 5.0
HOG_SHARE = 0.90
HOG_GAP_P99_US = 100.0
"""The bars of the founding issue."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One condition."""

    name: str
    gap_ms: float
    events: int
    runs: int
    loss: float = 0.0
    hog: bool = False
    tls: bool = False


FULL = (
    Variant("5 ms", 5, 400, 3),
    Variant("5 ms, TLS", 5, 400, 3, tls=True),
    Variant("1 ms", 1, 2000, 2),
    Variant("5 ms, 2 % loss", 5, 400, 3, loss=0.02),
    Variant("5 ms, CPU hog", 5, 400, 3, hog=True),
)
GATE = (
    Variant("5 ms", 5, 300, 1),
    Variant("5 ms, TLS", 5, 300, 1, tls=True),
    Variant("1 ms", 1, 1000, 1),
    Variant("5 ms, 2 % loss", 5, 300, 1, loss=0.02),
    Variant("5 ms, CPU hog", 5, 300, 1, hog=True),
)


@contextlib.contextmanager
def hog(on: bool) -> Iterator[None]:
    """A process that never sleeps, at normal priority, beside the client."""
    if not on:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def one_run(
    variant: Variant, path: ShimPath, certs: Certificates, scratch: Path
) -> tuple[list[Judged], dict[str, Any]]:
    """One trace, judged; and what the run was like."""
    log = scratch / "origin.ndjson"
    log.unlink(missing_ok=True)
    more = ("--cacert", str(certs.ca)) if variant.tls else ()
    before = realtime_offset_ns()
    with tool.origin(
        log,
        host=path.server.address,
        prefix=path.server.prefix(),
        tls=certs.good if variant.tls else None,
        events=variant.events,
        gap_ms=variant.gap_ms,
    ) as origin:
        condition = f"tcp port {origin.port}"
        with (
            capture(
                scratch / "judge.pcap",
                DEVICE,
                condition,
                prefix=path.client.prefix(),
                snap_bytes=96,
                immediate=False,
            ) as pcap,
            hog(variant.hog),
        ):
            document = tool.trace(
                origin.url, scratch, *more, prefix=path.client.prefix(), live=True
            )
    line = ClockLine(before, realtime_offset_ns())
    seen = segments(pcap)
    ends = [end for _, end in origin.records()[0]["events"]]
    found = truths(seen, origin.port, client_port(seen, origin.port), ends)
    events = tool.content_events(document)
    judged = judge(document["runs"][0]["trace"], events, found, line)
    facts = {
        "sent": len(ends),
        "traced": len(events),
        "judged": len(judged),
        "capture_dropped": dropped(pcap),
        "wall_clock_drift_ns": line.drift_ns,
        **figures(judged),
    }
    return judged, facts


def run_variant(variant: Variant, scratch: Path, certs: Certificates) -> dict[str, Any]:
    """All runs of a variant, and their figures together."""
    runs, together = [], []
    for number in range(variant.runs):
        with ShimPath(DELAY_MS, variant.loss, upload_loss=0.0, seed=number + 1) as path:
            judged, facts = one_run(variant, path, certs, scratch)
        runs.append({**facts, "errors_ns": [event.error_ns for event in judged]})
        together += judged
    complete = all(run["sent"] == run["traced"] == run["judged"] for run in runs)
    return {
        "variant": asdict(variant),
        "figures": figures(together),
        "complete": complete,
        "runs": runs,
    }


def bars(results: dict[str, dict[str, Any]], *, gate: bool) -> list[Bar]:
    """The bars of the variants that ran; a gate judges certificates and completeness only."""
    made: list[Bar] = []

    def add(
        name: str, value: float | None, unit: str, limit: float | None = None, better: Any = "<="
    ) -> None:
        made.append(Bar(name=name, value=value, unit=unit, limit=limit, better=better))

    for name, result in results.items():
        found = result["figures"]
        strict = name in {"5 ms", "5 ms, TLS"}
        add(f"{name}: false certificates", found["false_certificates"], "", 0)
        add(f"{name}: every event traced and judged", float(result["complete"]), "", 1, ">=")
        worst = WORST_US if strict and not gate else None
        add(f"{name}: worst certified error", found["certified_worst_us"], "us", worst)
        share = CERTIFIED_SHARE if strict else HOG_SHARE if result["variant"]["hog"] else None
        add(
            f"{name}: certified share",
            found["certified_share"],
            "",
            # A gate without a single certificate would pass unseen.
            0.01 if gate else share,
            ">=",
        )
        judged_rest = None if gate or not result["variant"]["hog"] else 1.0
        if found["rest_inside_share"] is not None:
            add(f"{name}: rest inside interval", found["rest_inside_share"], "", judged_rest, ">=")
        if result["variant"]["hog"]:
            limit = None if gate else HOG_GAP_P99_US
            add(f"{name}: certified gaps, p99 error", found["certified_gap_p99_us"], "us", limit)
    return made


def main(arguments: list[str]) -> int:
    """Run, publish, judge."""
    parser = argparse.ArgumentParser(prog="benchmarks.accuracy")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument("--only", help="a variant by its name")
    options = parser.parse_args(arguments)
    if not can_capture():
        print("accuracy: left out, namespaces and a packet capture need root", file=sys.stderr)
        return 0
    before = machine()
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        certs = make_certificates(Path(scratch), extra_names=("10.99.0.2",))
        for variant in GATE if options.gate else FULL:
            if options.only in (None, variant.name):
                results[variant.name] = run_variant(variant, Path(scratch), certs)
    name = "accuracy-gate" if options.gate else "accuracy"
    return publish(name, bars(results, gate=options.gate), results, before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
