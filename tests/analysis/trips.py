"""The hand-made trips behind fixtures/traces: one a way that a prompt's trip can go."""

from __future__ import annotations

from collections.abc import Callable

from promptpath.model.enums import Clock, EventKind, Outcome, Stage
from promptpath.model.names import (
    DNS_ADDRESSES,
    DNS_SOURCE,
    HTTP_ERROR_BODY,
    HTTP_RATE_LIMIT,
    HTTP_REDIRECT,
    HTTP_REQUEST_ID,
    PROXY,
    SPAN_CONNECT,
    SPAN_DIAL,
    SPAN_PROXY_TUNNEL,
    SPAN_RESOLVE,
    STREAM_USAGE,
    TCP_PEER,
    TLS_HELLO_RETRY,
)
from tests.analysis.build import CLEAN_HEADERS, TraceBuilder, opened


def _cold() -> TraceBuilder:
    trip = opened().head(22, headers=CLEAN_HEADERS).wait(180).event(EventKind.ROLE)
    trip.text(16, gap_ms=20, first_gap_ms=2).marker().event(EventKind.USAGE)
    trip.fact(STREAM_USAGE, {"input_tokens": 10, "output_tokens": 16, "reasoning_tokens": None})
    trip.fact(HTTP_REQUEST_ID, {"header": "x-request-id", "value": "req_1"})
    return trip.reports(queue=3, tokenize=1, prefill=172, decode=300).end()


def _warm() -> TraceBuilder:
    trip = opened(warm=True).head(22, headers=CLEAN_HEADERS).wait(170)
    trip.text(16, gap_ms=20).marker()
    return trip.reports(queue=2, tokenize=1, prefill=160, decode=300).end()


def _eyeballs_and_retry() -> TraceBuilder:
    trip = TraceBuilder()
    trip.span(Stage.DNS, SPAN_RESOLVE, 12)
    trip.fact(DNS_SOURCE, "system").fact(DNS_ADDRESSES, ["2001:db8::1", "192.0.2.1"])
    dial = trip.log.start_span(Stage.TCP, SPAN_DIAL, trip.now_ns, conn=2)
    lost = "[2001:db8::1]:443: another one won"
    trip.span(Stage.TCP, SPAN_CONNECT, 250, outcome=Outcome.CANCELLED, error=lost, parent=dial)
    trip.span(Stage.TCP, SPAN_CONNECT, 40, parent=dial)
    trip.log.end_span(dial, trip.now_ns)
    trip.fact(TCP_PEER, {"address": "192.0.2.1", "port": 443, "family": "ipv4"})
    trip.tcp_info("connected", rtt_ms=40)
    trip.tls(84).fact(TLS_HELLO_RETRY, {"group": "secp384r1"})
    return trip.request().head(42).wait(30).text(9, gap_ms=10).marker().end()


def _redirected_through_a_proxy() -> TraceBuilder:
    trip = TraceBuilder().dns(1)
    dial = trip.log.start_span(Stage.PROXY, SPAN_DIAL, trip.now_ns)
    trip.span(Stage.PROXY, SPAN_CONNECT, 3, parent=dial)
    trip.log.end_span(dial, trip.now_ns)
    trip.span(Stage.PROXY, SPAN_PROXY_TUNNEL, 22)
    trip.fact(PROXY, {"kind": "http", "address": "proxy.example:3128", "status": 200})
    trip.tls(25).request().head(21, status=308, framing=None)
    trip.log.end_span(trip.log.spans[-1].id, trip.now_ns)
    onward = {"status": 308, "from": "https://llm.example/v1", "to": "https://llm.example/v1/"}
    trip.fact(HTTP_REDIRECT, onward)
    return trip.request().head(21).wait(100).text(9).marker().end()


def _reasoning_then_a_stall() -> TraceBuilder:
    trip = opened().head(22).event(EventKind.COMMENT).wait(400)
    trip.text(20, gap_ms=25, kind=EventKind.REASONING)
    trip.text(12, gap_ms=25, first_gap_ms=25).after(900).text(8, gap_ms=25)
    return trip.marker().end()


def _cut() -> TraceBuilder:
    return opened().head(22).wait(100).text(7).end(complete=False, how="fin", marker_seen=False)


def _limited() -> TraceBuilder:
    trip = opened().head(24, status=429, headers={"content-type": "application/json"}, framing=None)
    trip.fact(HTTP_RATE_LIMIT, {"retry_after_s": 20.0, "headers": []})
    trip.fact(HTTP_ERROR_BODY, {"type": "requests", "code": "rate_limit", "message": "slow down"})
    return trip.end(marker_expected=False, marker_seen=False)


def _no_such_name() -> TraceBuilder:
    trip = TraceBuilder()
    said = "the name llm.example does not resolve"
    trip.span(Stage.DNS, SPAN_RESOLVE, 31, outcome=Outcome.FAILED, error=said)
    return trip.fails(Stage.DNS, "no-such-name", said)


def _user_clock_interrupted() -> TraceBuilder:
    trip = TraceBuilder(clock=Clock.USER).dns(2).tcp(20).request().head(25).wait(60)
    return trip.text(9, gap_ms=15).limit("interrupt")


TRIPS: dict[str, Callable[[], list[TraceBuilder]]] = {
    "cold-and-warm": lambda: [_cold(), _warm()],
    "eyeballs-and-hello-retry": lambda: [_eyeballs_and_retry()],
    "proxy-and-redirect": lambda: [_redirected_through_a_proxy()],
    "reasoning-then-a-stall": lambda: [_reasoning_then_a_stall()],
    "cut": lambda: [_cut()],
    "rate-limited": lambda: [_limited()],
    "no-such-name": lambda: [_no_such_name()],
    "user-clock-interrupted": lambda: [_user_clock_interrupted()],
}
"""File name to its runs."""
