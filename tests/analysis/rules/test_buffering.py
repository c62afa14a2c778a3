"""PP41x and PP420: each rule with a stream that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.analysis.diagnose import diagnose
from promptpath.model.enums import Severity
from promptpath.model.report import Finding
from tests.analysis.buffering import flow as f
from tests.analysis.buffering.tls import tls_trip
from tests.analysis.build import CLEAN_HEADERS, PLAN
from tests.analysis.rules.case import Case, check

SENT = f.varied(300, gap_ms=10, size=97)
GZIP = {**CLEAN_HEADERS, "content-encoding": "gzip"}
FREE = f.one_by_one(SENT)


def case(code: str, fires: f.Flow, quiet: f.Flow, says: str = "") -> Case:
    return Case(code, f.trip_of(fires), f.trip_of(quiet), says=says)


def compressed(flow: f.Flow) -> f.Flow:
    flow.headers = GZIP
    return flow


CASES = (
    case("PP411", f.whole(SENT), FREE, "300 events came within"),
    case("PP412", f.held_until(4096, SENT), f.timed(100, SENT), "exactly 4096 bytes"),
    case("PP413", f.timed(93, f.steady(300, gap_ms=10, size=97)), f.held_until(4096, SENT)),
    case("PP414", f.batched([4] * 40, step_ms=12, size=97), FREE, "4.0 whole events"),
    case("PP415", f.one_behind(SENT), FREE),
    case("PP416", f.start_held(1024, f.steady(50, gap_ms=100, size=40)), FREE, "1040 bytes"),
    case("PP417", compressed(f.held_until(8192, SENT)), compressed(f.one_by_one(SENT))),
    Case("PP418", tls_trip(16_384, SENT), tls_trip(None, SENT), says="TLS record"),
    case("PP419", f.corked(200, SENT), FREE),
    case("PP420", f.throttled(1638, 200, f.steady(300, gap_ms=20, size=250)), FREE),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def found(flow: f.Flow, code: str, *, stamps: bool = False) -> Finding:
    report = diagnose(f.trip_of(flow, stamps=stamps).build(), PLAN)
    return next(finding for finding in report.findings if finding.code == code)


def test_a_long_hold_is_an_error() -> None:
    assert found(f.held_until(4096, SENT), "PP412").severity is Severity.ERROR
    assert found(f.whole(SENT), "PP411").severity is Severity.ERROR


def test_a_hold_that_nobody_notices_is_a_warning() -> None:
    sent = f.varied(300, gap_ms=10, size=600)
    assert found(f.held_until(4096, sent), "PP412").severity is Severity.WARNING


def test_what_round_trips_can_do_is_never_an_error() -> None:
    for period in (80, 120, 200):
        flow = f.corked(period, SENT)
        flow.rtt_ms = period
        assert found(flow, "PP419").severity is not Severity.ERROR


def test_an_exact_fit_of_buffer_and_events_is_no_error_without_stamps() -> None:
    flow = f.held_until(4096, f.steady(300, gap_ms=40, size=1024))
    assert found(flow, "PP412").severity is Severity.WARNING
    assert found(flow, "PP412", stamps=True).severity is Severity.ERROR


def test_the_advice_names_the_cure_of_the_product_that_shows_itself() -> None:
    flow = f.held_until(4096, SENT)
    flow.headers = {**CLEAN_HEADERS, "server": "nginx/1.22.1"}
    advice = found(flow, "PP412").advice
    assert "proxy_buffering off;" in advice
    assert "verified here with 1.22.1" in advice
    assert "IIS" not in advice


def test_headers_of_boxes_are_shown_without_control_characters() -> None:
    flow = f.held_until(4096, SENT)
    flow.headers = {**CLEAN_HEADERS, "via": "1.1 box\x1b[31m" + "x" * 500}
    text = found(flow, "PP412").because[-1].text
    assert "via: 1.1 box" in text
    assert "\x1b" not in text
    assert len(text) < 200


def codes(flow: f.Flow, *, stamps: bool = False, decode_ms: float = 0) -> set[str]:
    trip = f.trip_of(flow, stamps=stamps)
    if decode_ms:
        trip.reports(queue=1, prefill=80, decode=decode_ms)
    return {finding.code for finding in diagnose(trip.build(), PLAN).findings}


@pytest.mark.parametrize("stamps", [False, True])
def test_the_pauses_that_a_box_makes_are_told_once(stamps: bool) -> None:
    found = codes(f.held_until(8192, SENT), stamps=stamps)
    assert "PP412" in found
    assert "PP604" not in found


def test_a_pause_of_the_sender_is_told_beside_the_box() -> None:
    sent = [f.Sent(s.at_ms + (2000 if i > 150 else 0), s.size) for i, s in enumerate(SENT)]
    assert {"PP412", "PP604"} <= codes(f.held_until(2048, sent), stamps=True)


@pytest.mark.parametrize("stamps", [False, True])
def test_a_server_does_not_claim_too_much_when_the_first_event_was_held(stamps: bool) -> None:
    decode_ms = SENT[-1].at_ms - SENT[0].at_ms
    found = codes(f.held_until(8192, SENT), stamps=stamps, decode_ms=decode_ms)
    assert "PP412" in found
    assert "PP605" not in found


def test_without_a_box_it_still_claims_too_much() -> None:
    decode_ms = SENT[-1].at_ms - SENT[0].at_ms
    assert "PP605" in codes(FREE, decode_ms=decode_ms + 500)


@pytest.mark.parametrize("stamps", [False, True])
def test_a_proven_hold_is_a_hop_and_the_boxs_time(stamps: bool) -> None:
    decode_ms = SENT[-1].at_ms - SENT[0].at_ms
    trip = f.trip_of(f.whole(SENT), stamps=stamps).reports(queue=1, prefill=80, decode=decode_ms)
    report = diagnose(trip.build(), PLAN)
    (held,) = [hop for hop in report.hops if hop.stage.value == "hold"]
    assert held.within is not None and held.within.value == "wait"
    assert held.duration_ms == pytest.approx(decode_ms, rel=0.02)
    assert report.verdicts[0].answer == "box"
    assert sum(hop.duration_ms for hop in report.hops if hop.within is None) == pytest.approx(
        report.latency.e2e_ms - report.latency.unexplained_ms, abs=0.01
    )


def test_what_is_not_proven_is_nobodys_time() -> None:
    report = diagnose(f.trip_of(f.batched([4] * 40, step_ms=12, size=97)).build(), PLAN)
    assert not [hop for hop in report.hops if hop.stage.value == "hold"]
    assert "box_ms" not in report.verdicts[0].estimate
