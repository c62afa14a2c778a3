"""Times that we put into the stages ourselves: the tool reports them back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.reference import BASE_MS, reference_server
from tests.e2e.trip import CHAT, ask

DELAYS = {
    "edge": 5.0,
    "gateway": 8.0,
    "session": 6.0,
    "tokenize": 4.0,
    "queue": 30.0,
    "prefill": 12.0,
}
TOLERANCE_MS = 1.0


def test_each_hop_is_as_long_as_it_was_made(tmp_path: Path) -> None:
    given = ",".join(f"{stage}={ms:g}ms" for stage, ms in DELAYS.items())
    with reference_server(tmp_path, "--edge", "--engine", "paced", "--delay", given) as server:
        # The least of three: what a busy machine adds is not what was put in.
        runs = [ask(server.url + CHAT) for _ in range(3)]
    reported = {
        stage: min(
            hop["duration_ms"]
            for run in runs
            for hop in run.report["hops"]
            if hop["stage"] == stage and hop["within"] == "wait"
        )
        for stage in DELAYS
    }
    expected = DELAYS | {"prefill": BASE_MS + DELAYS["prefill"]}
    assert reported == pytest.approx(expected, abs=TOLERANCE_MS)
    for run in runs:
        sources = {hop["stage"]: hop["source"] for hop in run.report["hops"] if hop["within"]}
        assert {sources[stage] for stage in DELAYS} == {"reported"}
        # What was put in is inside what was observed.
        assert run.hop_ms("wait") >= sum(DELAYS.values()) + BASE_MS
