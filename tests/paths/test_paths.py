"""Every described path gives the verdict it says it must, in virtual time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.sentence import where_verdict
from promptpath.model.report import Report
from tests.analysis.build import PLAN
from tests.paths.describe import FOLDER, Description, Hop, Server, read_description
from tests.paths.record import record
from tests.paths.simulate import deliver

FILES = sorted(FOLDER.glob("*.toml"))


def judged(description: Description) -> Report:
    return diagnose(record(description), PLAN)


def lengths(report: Report) -> dict[str, float]:
    found: dict[str, float] = {}
    for hop in report.hops:
        found[hop.stage.value] = found.get(hop.stage.value, 0.0) + hop.duration_ms
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_report_of_a_described_path_says_what_the_file_expects(path: Path) -> None:
    description = read_description(path)
    report, expect = judged(description), description.expect
    codes = {finding.code for finding in report.findings}
    verdict = where_verdict(report)
    assert verdict is not None
    assert verdict.answer == expect.where, verdict
    assert report.end_state.value == expect.end_state
    assert report.exit_code == expect.exit_code, codes
    assert set(expect.findings) <= codes
    assert not set(expect.absent) & codes
    if expect.ttft_ms is not None:
        low, high = expect.ttft_ms
        assert report.latency.ttft_ms is not None
        assert low <= report.latency.ttft_ms <= high
    for stage, ms in expect.hops.items():
        assert lengths(report)[stage] == pytest.approx(ms, rel=0.01)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_hops_of_a_described_path_add_up(path: Path) -> None:
    report = judged(read_description(path))
    top = sum(hop.duration_ms for hop in report.hops if hop.within is None)
    assert top + report.latency.unexplained_ms == pytest.approx(report.latency.e2e_ms, abs=0.01)


def test_there_are_paths_to_judge() -> None:
    assert len(FILES) >= 12


def test_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('title = "x"\nserverr = {}\n[expect]\nwhere = "path"\n')
    with pytest.raises(msgspec.ValidationError, match="serverr"):
        read_description(wrong)


def stream(*hops: Hop, **server: float) -> Description:
    made = msgspec.convert({"tokens": 10, **server}, Server)
    expect = {"where": "server"}
    plain = msgspec.convert({"title": "x", "expect": expect}, Description)
    return msgspec.structs.replace(plain, server=made, hops=list(hops))


def arrivals(description: Description) -> list[float]:
    return [p.at_ms for p in deliver(description).pieces if p.what not in ("head", "close")]


def test_a_buffer_holds_events_until_it_is_full() -> None:
    times = arrivals(stream(Hop(kind="proxy", buffer_bytes=800)))
    assert times[:8] == [260] * 4 + [340] * 4


def test_a_timer_sends_on_what_came_since_its_first_byte() -> None:
    times = arrivals(stream(Hop(kind="proxy", timer_ms=50)))
    assert times[:6] == [250] * 3 + [310] * 3


def test_a_one_event_hold_delays_each_event_to_the_next() -> None:
    assert arrivals(stream(Hop(kind="proxy", hold_one=True)))[:3] == [220, 240, 260]


def test_a_lost_packet_holds_up_those_behind_it_for_a_round_trip() -> None:
    clean = arrivals(stream(Hop(delay_ms=40)))
    lossy = arrivals(stream(Hop(delay_ms=40, loss=0.2, seed=3)))
    late = [round(b - a) for a, b in zip(clean, lossy, strict=True)]
    assert 80 in late
    assert lossy == sorted(lossy)


def test_an_idle_cut_ends_the_stream_within_the_silence() -> None:
    delivery = deliver(stream(Hop(kind="proxy", idle_cut_ms=150)))
    assert delivery.close == "fin"
    assert [piece.what for piece in delivery.pieces] == ["head", "close"]
    assert delivery.pieces[-1].at_ms == 151
