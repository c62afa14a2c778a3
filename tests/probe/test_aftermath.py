"""What is done after a run, off its critical path, and what is left alone."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from promptpath.model.plan import Override, Plan
from promptpath.model.trace import Trace
from promptpath.model.urls import parse_url
from promptpath.probe import dns
from promptpath.probe.clock import RunClock
from promptpath.probe.walk import walk
from tests.peers.certs import Certificates
from tests.peers.proxies import ForwardProxy
from tests.peers.scripted import (
    ReadRequest,
    ScriptedOrigin,
    StartTls,
    Step,
    response,
    sse_stream,
)
from tests.peers.unbound import unbound

PAGE: list[Step] = [ReadRequest(), response(200, b"hello", "text/plain")]
STREAM = sse_stream([b'data: {"choices":[{"index":0,"delta":{"content":"Hi there"}}]}\n\n'])


def trace_of(url: str, **changes: Any) -> Trace:
    """The trace of one run, aftermath and all."""
    plan = replace(Plan(target=parse_url(url)), **changes)

    async def main() -> list[Trace]:
        runs = walk(plan, stop=asyncio.Event(), watch=lambda *_: [], clock=RunClock.start())
        return [trace async for trace in runs]

    (trace,) = asyncio.run(main())
    return trace


def facts(trace: Trace, key: str) -> list[Any]:
    return [fact.value for fact in trace.log.facts if fact.key == key]


def names(trace: Trace) -> list[str]:
    return [span.name for span in trace.log.spans]


def test_the_second_connection_comes_after_the_response_and_is_a_span_aside(
    certs: Certificates,
) -> None:
    with ScriptedOrigin(PAGE, tls=certs.good.server_context()) as origin:
        trace = trace_of(origin.url("/", host="localhost"), ca_file=str(certs.ca))
        assert len(origin.connections) == 2 and len(origin.requests) == 1
    assert facts(trace, "tls.resumed") == [{"offered": True, "accepted": True}]
    spans = {span.name: span for span in trace.log.spans}
    second = spans["second-connection"]
    assert second.parent is None and spans["resumption"].parent == second.id
    response_end_ns = spans["response"].end_ns
    assert response_end_ns is not None and second.start_ns >= response_end_ns
    assert spans["handshake"].conn != spans["resumption"].conn


@pytest.mark.parametrize("reason", ["asked not to", "proxy"])
def test_there_is_no_second_connection(reason: str, certs: Certificates) -> None:
    with ScriptedOrigin(PAGE, tls=certs.good.server_context()) as origin, ForwardProxy() as proxy:
        changes: dict[str, Any] = {"resume": False}
        if reason == "proxy":
            from promptpath.cli.proxies import parse_proxy

            changes = {"proxy": parse_proxy(proxy.url(), source="option")}
        trace = trace_of(origin.url("/", host="localhost"), ca_file=str(certs.ca), **changes)
        assert len(origin.connections) == 1
    assert "second-connection" not in names(trace)


def test_a_second_connection_that_fails_leaves_the_run_as_it_was(certs: Certificates) -> None:
    first = certs.good.server_context()
    with ScriptedOrigin([StartTls(first), *PAGE], [b"no TLS here"]) as origin:
        trace = trace_of(f"https://localhost:{origin.port}/", ca_file=str(certs.ca))
    assert facts(trace, "http.status") == [200] and not facts(trace, "failure")
    (second,) = [span for span in trace.log.spans if span.name == "second-connection"]
    assert second.outcome.value == "failed"


def test_a_server_of_one_connection_at_a_time_is_let_go_first(certs: Certificates) -> None:
    closing = response(200, b"hello", "text/plain", ("connection", "close"))
    gone = threading.Event()
    in_time: list[bool] = []

    def first(connection: Any) -> None:
        connection.start_tls(certs.good.server_context())
        connection.read_request()
        connection.send(closing)
        connection.wait_closed()
        gone.set()

    def second(connection: Any) -> None:
        in_time.append(gone.wait(2))

    with ScriptedOrigin(first, second) as origin:
        trace_of(f"https://localhost:{origin.port}/", ca_file=str(certs.ca))
    assert in_time == [True]


def test_certificates_are_described_after_the_run(certs: Certificates) -> None:
    with ScriptedOrigin(PAGE, tls=certs.chained.server_context()) as origin:
        trace = trace_of(origin.url("/", host="localhost"), ca_file=str(certs.ca))
    (chain,) = facts(trace, "tls.chain")
    assert len(chain) == 2 and "localhost" in chain[0]["names"]
    keys = [fact.key for fact in trace.log.facts]
    assert keys.index("tls.chain") > keys.index("http.end")


def test_tokens_are_counted_after_the_run() -> None:
    with ScriptedOrigin(STREAM) as origin:
        trace = trace_of(origin.url("/v1/chat/completions"), method="POST", body=b"{}")
    keys = [fact.key for fact in trace.log.facts]
    assert keys.index("output.tokens") > keys.index("http.end")
    assert facts(trace, "output.tokens")[0]["counted"] == 2
    assert facts(trace, "prompt.tokens")[0]["count"] == 10


@pytest.mark.parametrize("source", ["literal", "hosts", "override"])
def test_what_no_resolver_was_asked_for_is_not_asked_now(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def configured() -> None:
        asked.append("resolv.conf")

    monkeypatch.setattr(dns, "configured_resolver", configured)
    with ScriptedOrigin(PAGE) as origin:
        host = {"literal": "127.0.0.1", "hosts": "localhost"}.get(source, "ai.example")
        override = Override(host="ai.example", port=origin.port, address="127.0.0.1")
        trace = trace_of(f"http://{host}:{origin.port}/", overrides=(override,))
    assert facts(trace, "dns.source") == [source]
    assert asked == [] and not facts(trace, "dns.query")


@pytest.mark.peer
def test_a_name_the_system_could_not_resolve_is_asked_for_in_detail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with unbound(tmp_path) as resolver:
        monkeypatch.setattr(dns, "configured_resolver", lambda: (resolver.host, resolver.port))
        trace = trace_of(f"http://{resolver.nxdomain}/")
    assert facts(trace, "failure")[0]["stage"] == "dns"
    queries = {query["type"]: query["rcode"] for query in facts(trace, "dns.query")}
    assert queries == {"A": "NXDOMAIN", "AAAA": "NXDOMAIN", "HTTPS": "NXDOMAIN"}


@pytest.mark.peer
def test_with_a_resolver_of_the_users_only_the_https_record_is_left_to_ask(
    tmp_path: Path,
) -> None:
    with unbound(tmp_path) as resolver, ScriptedOrigin(PAGE) as origin:
        url = f"http://{resolver.four_only}:{origin.port}/"
        trace = trace_of(url, resolver=(resolver.host, resolver.port))
    kinds = [query["type"] for query in facts(trace, "dns.query")]
    assert sorted(kinds) == ["A", "AAAA", "HTTPS"] and kinds[-1] == "HTTPS"
    parents = [span.parent for span in trace.log.spans if span.name == "query"]
    assert parents[:2] != [None, None] and parents[2] is None  # two of them inside the dns hop
