"""The fate of each stream of an idle pass, and what the streams say together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.analysis.active import with_active_verdicts
from promptpath.analysis.defaults import DEFAULTS, TimerKind, matching
from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.idle import Fate, StreamFate, fate_of
from promptpath.analysis.idle_pass import judge_pass, sentence
from promptpath.model.document import Run
from promptpath.model.enums import EventKind, FactSource, Layer, Stage
from promptpath.model.log import EventLog
from promptpath.model.names import (
    FAILURE,
    HTTP_END,
    HTTP_HEADERS,
    HTTP_STATUS,
    LIMIT,
    MARK_HEAD,
    MARK_REQUEST_WIRE,
    MARK_TRANSPORT_END,
    TCP_INFO,
    TEST,
    TEST_KEPT,
)
from promptpath.model.rows import Json
from promptpath.model.stamp import user_stamp
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_MS, NS_PER_S
from tests.analysis.build import PLAN, TraceBuilder

S = NS_PER_S
ASKED_NS = 50 * NS_PER_MS


class Stream:
    """One stream of a pass, made by hand; times are seconds after its request."""

    def __init__(self, at: str = "stream", keepalive: str = "none", longest_s: int = 75) -> None:
        self.log = EventLog()
        interval = {"none": None, "busy": S // 5}.get(keepalive, S)
        about: dict[str, Json] = {
            "command": "idle",
            "at": at,
            "keepalive": keepalive,
            "silence_ns": (longest_s + 2) * S,
            "longest_ns": longest_s * S,
            "interval_ns": interval,
            "last_sent_ns": S // 10 if at == "stream" else 0,
        }
        self.fact(TEST, about)
        self.mark(Stage.REQUEST, MARK_REQUEST_WIRE, 0)

    def fact(self, key: str, value: Json) -> Stream:
        self.log.add_fact(key, value, FactSource.OBSERVED)
        return self

    def mark(self, stage: Stage, name: str, at_s: float, **detail: Json) -> Stream:
        self.log.add_mark(stage, name, user_stamp(ASKED_NS + round(at_s * S)), detail=detail)
        return self

    def head(self, at_s: float, status: int = 200) -> Stream:
        self.fact(HTTP_STATUS, status)
        return self.mark(Stage.WAIT, MARK_HEAD, at_s)

    def event(self, at_s: float, kind: EventKind = EventKind.TEXT) -> Stream:
        stamp = user_stamp(ASKED_NS + round(at_s * S))
        self.log.add_event(kind, stamp, stamp, tokens=None, chars=1, size_bytes=100)
        self.log.add_arrival(Layer.BODY, stamp, span=None, offset=0, size=100)
        return self

    def keepalives(self, until_s: float) -> Stream:
        for second in range(1, int(until_s)):
            self.event(second, EventKind.COMMENT)
        return self

    def end(self, at_s: float, how: str, code: int | None = None) -> Stream:
        self.mark(Stage.FINISH, MARK_TRANSPORT_END, at_s, how=how)
        value = {"how": how, "code": code, "complete": how == "clean", "detail": None}
        return self.fact(HTTP_END, value)

    def trace(self) -> Trace:
        return Trace(clock=TraceBuilder().build().clock, log=self.log)

    def fate(self) -> StreamFate:
        found = fate_of(self.trace())
        assert found is not None
        return found


def survived(at: str = "stream", keepalive: str = "none") -> Stream:
    stream = Stream(at, keepalive).head(0.01).keepalives(77).event(77.2, EventKind.END)
    return stream.end(77.3, "clean")


def cut(at_s: float, at: str = "stream", keepalive: str = "none") -> Stream:
    return Stream(at, keepalive).head(0.01).event(0.1).end(at_s, "fin")


@pytest.mark.parametrize(
    ("how", "code", "fate", "words"),
    [
        ("fin", None, Fate.CUT, "FIN without the last chunk"),
        ("close-notify", None, Fate.CUT, "close_notify without the last chunk"),
        ("rst", None, Fate.CUT, "TCP reset"),
        ("reset", 2, Fate.CUT, "RST_STREAM code 2"),
        ("clean", None, Fate.CUT_CLEAN, "a clean end (last chunk) without the end event"),
        ("timed-out", None, Fate.SILENT_DROP, "TCP keepalives got no answer"),
    ],
)
def test_an_end_before_the_end_event_is_named_by_how_it_came(
    how: str, code: int | None, fate: Fate, words: str
) -> None:
    found = Stream().head(0.01).event(0.1).end(60.1, how, code).fate()
    assert (found.fate, found.how) == (fate, words)
    assert found.silent_ns == 60 * S
    assert found.after_request_ns == round(60.1 * S)


def test_a_gateway_timeout_is_a_cut_and_a_404_is_not() -> None:
    timed_out = Stream("head").head(60.0, 504).fate()
    assert (timed_out.fate, timed_out.ended, timed_out.silent_ns) == (Fate.REFUSED, True, 60 * S)
    missing = Stream("head").head(0.02, 404).fate()
    assert (missing.ended, missing.decided) == (False, False)
    at_once = Stream("head").head(0.02, 503).fate()
    assert not at_once.ended


def test_a_reset_without_a_head_is_a_cut() -> None:
    stream = Stream("head").mark(Stage.FINISH, MARK_TRANSPORT_END, 3.0, how="rst")
    found = stream.fact(FAILURE, {"code": "reset", "what": "reset"}).fate()
    assert (found.fate, found.silent_ns) == (Fate.CUT, 3 * S)


def test_without_a_connection_nothing_is_known() -> None:
    log = Stream()
    log.log = EventLog()
    log.fact(TEST, {"command": "idle", "at": "head", "keepalive": "none"})
    found = log.fact(FAILURE, {"code": "refused", "what": "connection refused"}).fate()
    assert (found.fate, found.decided) == (Fate.UNMEASURED, False)


@pytest.mark.parametrize(
    ("ack_ms", "data_ms", "fate", "words"),
    [
        (4_000, 76_000, Fate.HANG, "though the peer answers"),
        (76_000, 76_000, Fate.SILENT_DROP, "no answer to TCP keepalives"),
        (300, 300, Fate.HANG, "whether the peer lives is not known"),
    ],
)
def test_a_stream_that_neither_goes_on_nor_ends(
    ack_ms: int, data_ms: int, fate: Fate, words: str
) -> None:
    info = {"when": "end", "last_ack_recv_ms": ack_ms, "last_data_recv_ms": data_ms}
    stream = Stream().head(0.01).event(0.1).fact(LIMIT, {"name": "timeout", "value": 80 * S})
    found = stream.fact(TCP_INFO, info).fate()
    assert found.fate is fate
    assert words in found.how


@pytest.mark.parametrize(
    ("kept", "fate"),
    [
        ({"idle_ns": 60 * S, "closed": "fin", "reused": False}, Fate.CUT),
        ({"idle_ns": 77 * S, "closed": None, "reused": True}, Fate.SURVIVED),
        ({"idle_ns": 77 * S, "closed": None, "reused": False}, Fate.CUT),
        ({"idle_ns": 13 * S, "closed": "timed-out", "reused": False}, Fate.SILENT_DROP),
        ({"idle_ns": None, "closed": None, "reused": None}, Fate.REFUSED),
    ],
)
def test_an_idle_connection(kept: dict[str, Json], fate: Fate) -> None:
    found = Stream("kept").fact(TEST_KEPT, kept).fate()
    assert (found.fate, found.silent_ns) == (fate, kept["idle_ns"])


def test_an_idle_timer_that_comments_reset_is_named_with_its_products() -> None:
    streams = [
        Stream("head").head(60.0, 504),
        cut(60.0, "body"),
        cut(60.1),
        survived(keepalive="comment"),
        survived(keepalive="event"),
        survived(keepalive="busy"),
    ]
    found = judge_pass([stream.fate() for stream in streams])
    assert found is not None
    assert (found.answer, found.idle_ns, found.total_ns) == ("idle-timer", 60 * S, None)
    assert (found.comments_reset, found.events_reset, found.swallowed) == (True, True, False)
    products = " ".join(match.default.product for match in found.matches())
    assert "nginx" in products and "Load Balancer" in products
    assert "a comment line resets the timer" in sentence(found)


def test_a_total_timer_cuts_the_busy_stream_too() -> None:
    busy = Stream(keepalive="busy").head(0.01)
    for tick in range(1, 75):
        busy.event(tick / 5, EventKind.PING)
    streams = [cut(15.0), cut(15.0, "body"), busy.end(15.0, "reset", 2)]
    found = judge_pass([stream.fate() for stream in streams])
    assert found is not None
    assert (found.answer, found.idle_ns, found.total_ns) == ("total-timer", None, 15 * S)
    assert found.before_first_byte_ns is None
    (match,) = found.matches()
    assert match.default.product == "Envoy, Istio, Contour"
    assert (match.kinds, match.named) == ((TimerKind.TOTAL,), False)


def test_a_deadline_that_only_the_next_write_shows_is_no_idle_timer() -> None:
    busy = Stream(keepalive="busy").head(0.01)
    for tick in range(1, 150):
        busy.event(tick / 5, EventKind.PING)
    found = judge_pass([cut(77.2).fate(), busy.end(30.0, "fin").fate()])
    assert found is not None
    assert (found.idle_ns, found.total_ns) == (None, 30 * S)


def test_swallowed_keepalives_do_not_make_a_total_timer() -> None:
    streams = [cut(3.0), cut(3.0, keepalive="comment"), cut(3.0, keepalive="busy")]
    found = judge_pass([stream.fate() for stream in streams])
    assert found is not None
    assert (found.answer, found.total_ns, found.swallowed) == ("idle-timer", None, True)
    assert found.comments_reset is None
    assert "holds comment keepalives back" in sentence(found)


def test_comments_that_arrive_and_do_not_help() -> None:
    comments = Stream(keepalive="comment").head(0.01).keepalives(60).end(60.1, "fin")
    found = judge_pass([cut(60.1).fate(), comments.fate(), survived(keepalive="busy").fate()])
    assert found is not None
    assert found.comments_reset is False


def test_nothing_found_and_nothing_known_are_not_the_same() -> None:
    good = judge_pass([survived().fate(), survived("body").fate()])
    assert good is not None and good.answer == "none-found"
    stopped = Stream().head(0.01).fact(LIMIT, {"name": "interrupt", "value": None})
    half = judge_pass([survived("body").fate(), stopped.fate()])
    assert half is not None and half.answer == "inconclusive"
    assert "1 of 2 streams" in sentence(half) and "the others show no timer" in sentence(half)
    none = judge_pass([stopped.fate()])
    assert none is not None and sentence(none).endswith(
        "1 of 1 streams could not be followed to their end"
    )
    assert judge_pass([]) is None


def test_a_server_that_refuses_the_silence_is_told_from_a_timer() -> None:
    found = judge_pass([Stream("head").head(0.01, 400).fate(), survived("body").fate()])
    assert found is not None and found.answer == "inconclusive"
    assert "raise its --test-seconds" in sentence(found)
    strange = judge_pass([Stream("head").head(0.01, 418).fate()])
    assert strange is not None and "(status 418)" in sentence(strange)


def test_the_documents_runs_carry_the_verdicts_and_the_finding() -> None:
    traces = [cut(60.0, "body").trace(), cut(60.1).trace()]
    runs = with_active_verdicts(tuple(Run(trace=t, report=diagnose(t, PLAN)) for t in traces))
    questions = [[verdict.question for verdict in run.report.verdicts] for run in runs]
    assert "idle-stream" in questions[0] and "idle" not in questions[0]
    assert questions[1][-2:] == ["idle-stream", "idle"]
    codes = {finding.code for run in runs for finding in run.report.findings}
    assert "PP440" in codes
    assert [run.report.exit_code for run in runs] == [1, 1]


def test_an_end_before_the_head_is_a_finding_and_no_failure_to_measure() -> None:
    stream = Stream("head").mark(Stage.FINISH, MARK_TRANSPORT_END, 7.0, how="fin")
    trace = stream.fact(FAILURE, {"stage": "wait", "code": "closed", "what": "closed"}).trace()
    (run,) = with_active_verdicts((Run(trace=trace, report=diagnose(trace, PLAN)),))
    assert run.report.exit_code == 1
    nobody = Stream("head")
    nobody.log = EventLog()
    nobody.fact(TEST, {"command": "idle", "at": "head", "keepalive": "none"})
    trace = nobody.fact(FAILURE, {"stage": "tcp", "code": "refused", "what": "refused"}).trace()
    (run,) = with_active_verdicts((Run(trace=trace, report=diagnose(trace, PLAN)),))
    assert run.report.exit_code == 3


def test_a_run_of_another_command_is_left_alone() -> None:
    trace = TraceBuilder().dns(5).tcp(10).request().head(5).text(3, gap_ms=5).end().build()
    runs = (Run(trace=trace, report=diagnose(trace, PLAN)),)
    assert with_active_verdicts(runs) == runs
    assert fate_of(trace) is None


@pytest.mark.parametrize(("off_ns", "fits"), [(-299, 1), (-301, 0), (1_099, 1), (1_101, 0)])
def test_a_default_fits_within_the_slack_that_was_measured(off_ns: int, fits: int) -> None:
    timer_ns = 350 * S + off_ns * NS_PER_MS
    assert len(matching(timer_ns, TimerKind.IDLE)) == fits


def test_the_product_that_the_headers_name_comes_first() -> None:
    headers = [["server", "Varnish"], ["via", "1.1 varnish (Varnish/7.1)"]]
    found = judge_pass([cut(60.1).fact(HTTP_HEADERS, headers).fate(), cut(60.0, "body").fate()])
    assert found is not None
    first, *others = found.matches()
    assert (first.default.product, first.named) == ("Varnish", True)
    assert first.kinds == (TimerKind.IDLE, TimerKind.FIRST_BYTE)
    assert others and not any(match.named for match in others)


def test_every_default_has_its_words() -> None:
    for default in DEFAULTS:
        assert default.kinds and default.cure and default.source and default.setting
    assert matching(60 * S, TimerKind.TOTAL) == ()


@given(
    st.dictionaries(
        st.sampled_from(["command", "at", "keepalive", "silence_ns", "longest_ns", "interval_ns"]),
        st.one_of(st.none(), st.integers(), st.text(max_size=6), st.lists(st.integers())),
    ),
    st.one_of(st.none(), st.integers(), st.dictionaries(st.just("idle_ns"), st.text(max_size=3))),
)
def test_a_strange_file_never_breaks_it(about: dict[str, Json], kept: Json) -> None:
    for command in ("idle", "calibrate"):
        builder = TraceBuilder().dns(1).tcp(10).request().head(5).text(9, gap_ms=10).end()
        builder.fact(TEST, {"at": "kept", "keepalive": "none", **about, "command": command})
        trace = builder.fact(TEST_KEPT, kept).build()
        with_active_verdicts((Run(trace=trace, report=diagnose(trace, PLAN)),))
