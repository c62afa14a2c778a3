"""From a plan to a connection that takes a request, over real sockets."""

from __future__ import annotations

import asyncio
import pickle
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from promptpath.errors import MeasureError, UsageError
from promptpath.model.plan import HttpChoice, Plan, ProxyKind, ProxyPlan
from promptpath.model.urls import parse_url
from promptpath.probe.clock import RunClock
from promptpath.probe.connect import Connection, open_connection, prepare, ready_for
from promptpath.probe.recorder import Recorder
from promptpath.wire.h1 import H1Connection
from promptpath.wire.h2 import H2Connection
from tests.peers.certs import Certificates
from tests.peers.proxies import ForwardProxy
from tests.peers.scripted import HOLD, ScriptedOrigin
from tests.probe.loopback import PATIENCE_NS

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""RFC 9113 section 3.4."""


def plan_for(url: str, **changes: Any) -> Plan:
    return replace(Plan(target=parse_url(url)), **changes)


def connect(
    plan: Plan, then: Callable[[Connection], object] = lambda _: None
) -> tuple[Recorder, Connection]:
    """Open, look, abort."""
    recorder = Recorder(RunClock.start())

    async def opened() -> Connection:
        connection = await open_connection(recorder, plan, recorder.clock.deadline(PATIENCE_NS))
        then(connection)
        connection.link.abort()
        return connection

    return recorder, asyncio.run(opened())


def failing(plan: Plan) -> tuple[Recorder, MeasureError]:
    """Why it does not open."""
    recorder = Recorder(RunClock.start())
    with pytest.raises(MeasureError) as caught:
        asyncio.run(open_connection(recorder, plan, recorder.clock.deadline(PATIENCE_NS)))
    return recorder, caught.value


def names(recorder: Recorder) -> list[str]:
    return [span.name for span in recorder.log.spans if span.parent is None]


def snapshots(recorder: Recorder) -> list[str]:
    return [fact.value["when"] for fact in recorder.log.facts if fact.key == "tcp.info"]


@pytest.mark.parametrize(
    ("choice", "kind"),
    [(HttpChoice.AUTO, H1Connection), (HttpChoice.H1, H1Connection), (HttpChoice.H2, H2Connection)],
)
def test_clear_text_is_http_1_unless_http_2_was_asked_for(
    choice: HttpChoice, kind: type[object]
) -> None:
    with ScriptedOrigin([HOLD]) as origin:
        recorder, connection = connect(plan_for(origin.url("/"), http=choice))
    assert isinstance(connection.http, kind)
    assert connection.tls is None and connection.conn == 1
    assert names(recorder) == ["resolve", "dial"]
    assert snapshots(recorder) == ["connected"]


def test_http_2_begins_with_its_preface_before_any_request() -> None:
    seen: list[bytes] = []
    read = threading.Event()

    def play(peer: Any) -> None:
        seen.append(peer.read_exactly(len(PREFACE)))
        read.set()

    with ScriptedOrigin(play) as origin:
        plan = plan_for(origin.url("/"), http=HttpChoice.H2)
        connect(plan, lambda _: bool(read.wait(10)))
    assert seen == [PREFACE]


@pytest.mark.parametrize(
    ("offered", "choice", "alpn", "kind"),
    [
        (("h2", "http/1.1"), HttpChoice.AUTO, "h2", H2Connection),
        (("http/1.1",), HttpChoice.AUTO, "http/1.1", H1Connection),
        (("h2", "http/1.1"), HttpChoice.H1, "http/1.1", H1Connection),
        ((), HttpChoice.AUTO, None, H1Connection),
    ],
)
def test_under_tls_alpn_decides(
    offered: tuple[str, ...],
    choice: HttpChoice,
    alpn: str | None,
    kind: type[object],
    certs: Certificates,
) -> None:
    with ScriptedOrigin([HOLD], tls=certs.good.server_context(alpn=offered)) as origin:
        plan = plan_for(origin.url("/", host="localhost"), http=choice, ca_file=str(certs.ca))
        recorder, connection = connect(plan)
    assert isinstance(connection.http, kind)
    assert connection.tls is not None and connection.tls.alpn == alpn
    assert names(recorder) == ["resolve", "dial", "handshake"]
    assert snapshots(recorder) == ["connected", "tls"]


def test_a_server_that_does_not_take_the_only_protocol_offered(certs: Certificates) -> None:
    with ScriptedOrigin([HOLD], tls=certs.good.server_context()) as origin:
        plan = plan_for(
            origin.url("/", host="localhost"), http=HttpChoice.H2, ca_file=str(certs.ca)
        )
        _, error = failing(plan)
    assert (error.stage, error.code) == ("tls", "alpn-mismatch") and error.hint


def test_a_failed_handshake_lets_the_socket_go(certs: Certificates) -> None:
    ended: list[bool] = []

    def play(peer: Any) -> None:
        try:
            peer.start_tls(certs.good.server_context())
            peer.wait_closed()
        except (ssl.SSLError, OSError):
            pass
        ended.append(True)

    with ScriptedOrigin(play) as origin:
        recorder, error = failing(plan_for(f"https://localhost:{origin.port}/"))
    assert error.stage == "tls" and ended == [True]
    assert names(recorder) == ["resolve", "dial", "handshake"]


def test_plain_http_through_a_proxy_needs_no_tunnel() -> None:
    with ForwardProxy() as proxy:
        through = ProxyPlan(kind=ProxyKind.HTTP, host="127.0.0.1", port=proxy.port)
        recorder, connection = connect(plan_for("http://far.example/", proxy=through))
    assert connection.absolute_form and names(recorder) == ["resolve", "proxy-dial"]
    (fact,) = [fact.value for fact in recorder.log.facts if fact.key == "proxy"]
    assert (fact["mode"], fact["status"]) == ("absolute-form", None)


def test_a_bypassed_proxy_is_told() -> None:
    with ScriptedOrigin([HOLD]) as origin:
        recorder, _ = connect(plan_for(origin.url("/"), proxy_bypassed="NO_PROXY has '*'"))
    why = [fact.value for fact in recorder.log.facts if fact.key == "proxy.bypassed"]
    assert why == [{"why": "NO_PROXY has '*'"}]


def test_prepare_finds_files_that_are_no_use_before_anything_is_measured() -> None:
    with pytest.raises(UsageError):
        prepare(plan_for("https://ai.example/", ca_file="/nowhere/ca.pem"))
    prepare(plan_for("http://ai.example/", ca_file="/nowhere/ca.pem"))  # not needed there


def test_a_peer_that_speaks_no_tls_is_told_by_the_stage(certs: Certificates) -> None:
    with ScriptedOrigin([b"SSH-2.0-OpenSSH_9.2\r\n", HOLD]) as origin:
        _, error = failing(plan_for(f"https://localhost:{origin.port}/"))
    assert (error.stage, error.code) == ("tls", "not-tls")


def test_our_own_queries_on_the_path_find_their_codec_loaded() -> None:
    plan = plan_for("http://ai.example/", resolver=("127.0.0.1", 53))
    loads = "import sys; from promptpath.probe.connect import prepare; import pickle; "
    code = (
        f"{loads}prepare(pickle.loads({pickle.dumps(plan)!r})); print('dns.message' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


# -- the request written ahead ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "opening"), [(HttpChoice.AUTO, b""), (HttpChoice.H1, b""), (HttpChoice.H2, PREFACE)]
)
def test_in_clear_text_the_request_is_written_ahead(choice: HttpChoice, opening: bytes) -> None:
    plan = plan_for("http://ai.example/v1", http=choice, method="POST", body=b'{"stream":true}')
    ready = ready_for(plan)
    assert ready is not None and ready.queued is not None
    assert ready.opening.startswith(opening) and bool(ready.opening) is bool(opening)
    assert ready.http.request_sent(ready.queued.stream)
    assert ready.queued.first.endswith(b'{"stream":true}')


def test_under_tls_nothing_is_written_before_alpn_decides() -> None:
    assert ready_for(plan_for("https://ai.example/")) is None


def test_a_request_that_cannot_be_written_is_told_when_its_turn_comes() -> None:
    ready = ready_for(plan_for("http://ai.example/", headers=(("x-bad", "a\r\nb"),)))
    assert ready is not None and ready.queued is None


def test_what_was_written_ahead_goes_out_once() -> None:
    with ScriptedOrigin([HOLD]) as origin:
        plan = plan_for(origin.url("/"))
        ready = ready_for(plan)
        recorder = Recorder(RunClock.start())

        async def opened() -> Connection:
            deadline_ns = recorder.clock.deadline(PATIENCE_NS)
            connection = await open_connection(recorder, plan, deadline_ns, ready)
            connection.link.abort()
            return connection

        connection = asyncio.run(opened())
    assert ready is not None
    assert connection.http is ready.http and connection.queued is ready.queued
    assert connection.http.data_to_send() == b""
