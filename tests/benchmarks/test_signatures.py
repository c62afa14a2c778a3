"""The benchmark that reads recordings: its lines, its counting, and the bars it must keep."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import signatures
from benchmarks.recordings import read_recordings, window
from benchmarks.signatures import Score
from promptpath.analysis.buffering.judge import judge
from tests.analysis.buffering import flow as f

SENT = f.varied(200, gap_ms=10, size=97)
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "signatures"


def document(flow: f.Flow, truth: str | None, name: str = "made") -> dict[str, Any]:
    """A flow in the recordings' own format."""
    reads = [
        [d.at_ms, d.at_ms + d.late_ms, d.size, d.segments, d.ooo, d.pending]
        for d in flow.deliveries
    ]
    events = [
        [index, flow.sent[index].at_ms, delivery.at_ms, read]
        for read, delivery in enumerate(flow.deliveries)
        for index in delivery.events
    ]
    result = {
        "reads": reads,
        "events": events,
        "chunk_sizes": flow.frames,
        "h2_frames": None,
        "tls_records": None,
        "headers": [["Content-Type", "text/event-stream"]],
        "t_headers_ms": flow.head_ms,
        "body_decoded": sum(event.size for event in flow.sent),
        "tcp": {"min_rtt": 1000, "pmtu": 1500},
    }
    found = {"config": {"name": name}, "scenario": "s", "recording": "r", "result": result}
    return found if truth is None else {**found, "truth": truth, "truth_hold_p90_ms": 90.0}


def saved(path: Path, *documents: dict[str, Any]) -> Path:
    with gzip.open(path, "wt") as lines:
        lines.writelines(json.dumps(each) + "\n" for each in documents)
    return path


def test_each_recording_gets_a_line_and_the_truth_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(
        tmp_path / "made.jsonl.gz",
        document(f.held_until(4096, SENT), "size-buffer", "a-buffer"),
        document(f.one_by_one(SENT), "streaming"),
        document(f.timed(93, f.steady(200, gap_ms=10, size=97)), "streaming", "mislabelled"),
        document(f.one_by_one(SENT), None),
        {"config": "something else", "recording": "r"},
    )
    assert signatures.main([str(path)]) == 0
    out = capsys.readouterr().out.splitlines()
    cells = out[0].split("\t")
    assert cells[:3] == ["r a-buffer", "s", "size-buffer"]
    assert "bytes=4096" in cells[4]
    assert [line.split("\t")[2] for line in out[1:4]] == ["streaming", "timer", "streaming"]
    text = "\n".join(out)
    assert "strict class right  2 of 3" in text
    assert "false alarms        1 of 2" in text
    assert "impaired flagged    1 of 1" in text


def test_stamps_are_used_only_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path / "m.jsonl.gz", document(f.batched([4] * 40, step_ms=12, size=97), None))
    for options, answer in (([], "paced-batch"), (["--stamps"], "server-batch")):
        assert signatures.main([str(path), *options]) == 0
        assert capsys.readouterr().out.split("\t")[2] == answer


@pytest.mark.parametrize("line", ["{", "[]", '{"config": {}, "result": {"events": [[1]]}}', "\xff"])
def test_what_is_no_recording_is_said_with_its_line(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text(line + "\n")
    assert signatures.main([str(path)]) == 1
    assert "line 1: not a recording" in capsys.readouterr().err


def test_a_missing_file_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert signatures.main([str(tmp_path / "none.jsonl")]) == 1
    assert "none.jsonl" in capsys.readouterr().err


def test_a_window_is_a_short_stream_of_its_own(tmp_path: Path) -> None:
    path = saved(tmp_path / "made.jsonl.gz", document(f.one_by_one(SENT), "streaming"))
    (recording,) = read_recordings(path)
    piece = window(recording, 50, 70).evidence
    assert list(piece.events.number) == list(range(50, 70))
    assert (len(piece.reads), len(piece.frames), piece.framed_events) == (20, 20, 20)
    assert list(piece.events.read) == list(range(20))


# name, strict, flagged, flagged or undecided: what the recordings gave when this was written.
BARS = [
    ("loopback", False, 0.99, 0.98, 0.98),
    ("link", False, 0.87, 0.87, 0.96),
    ("loopback", True, 0.99, 1.0, 1.0),
    ("link", True, 0.98, 1.0, 1.0),
]


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the labelled recordings are not in this checkout")
@pytest.mark.parametrize(("name", "stamps", "strict", "flagged", "named"), BARS)
def test_the_labelled_recordings_keep_their_bars(
    name: str, stamps: bool, strict: float, flagged: float, named: float
) -> None:
    score = Score()
    for recording in read_recordings(SHARED / f"{name}.jsonl.gz"):
        score.add(recording, judge(recording.evidence, use_stamps=stamps))
    total = sum(score.matrix.values())
    right = sum(n for (truth, answer), n in score.matrix.items() if truth == answer)
    sick = [truth for truth in score.truths if truth not in signatures.HEALTHY]
    flags = [answer for answer in score.answers if answer not in signatures.HEALTHY]
    undecided = ("paced-batch", "inconclusive")
    sure = [answer for answer in flags if answer not in undecided]
    impaired = score.count(sick, score.answers)
    assert total > 200
    assert right >= strict * total
    assert score.count(sick, sure) >= flagged * impaired
    assert score.count(sick, flags) >= named * impaired
    assert score.count(signatures.HEALTHY, sure) == 0
    assert score.count(["streaming"], undecided) == 0
