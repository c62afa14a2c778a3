"""(a) The bundled server, each way it can be spoken to."""

from __future__ import annotations

import pytest

from tests.cli.running import promptpath
from tests.e2e.reference import BASE_MS, ITL_MS, Server
from tests.e2e.trip import CHAT, MESSAGES, TOKENS, ask, check_answer, prompt, trip, trips

TLS_HOPS = ("dns", "tcp", "tls", "request")


@pytest.mark.parametrize(("http", "alpn"), [("auto", "h2"), ("2", "h2"), ("1.1", "http/1.1")])
def test_over_tls_every_hop_is_there(
    http: str, alpn: str, secure: Server, trust: tuple[str, str]
) -> None:
    found = ask(secure.url + CHAT, *trust, "--http", http)
    check_answer(found, *TLS_HOPS)
    assert found.fact("tls.alpn") == alpn
    assert found.fact("http.version") == ("2" if alpn == "h2" else "1.1")
    assert found.fact("http.framing") == ("h2-data" if alpn == "h2" else "chunked")
    assert (found.fact("tls.version"), found.fact("tls.sni")) == ("TLSv1.3", "localhost")
    assert found.fact("tls.verify")["verified"] is True
    assert found.fact("dns.host") == "localhost" and found.fact("dns.source") == "hosts"
    assert found.fact("stream.dialect") == {"name": "openai-chat", "because": "payload"}


@pytest.mark.parametrize(("http", "version"), [("1.1", "1.1"), ("auto", "1.1"), ("2", "2")])
def test_in_clear_text_there_is_no_tls_hop(http: str, version: str, clear: Server) -> None:
    found = ask(clear.url + CHAT, "--http", http)
    check_answer(found, "dns", "tcp", "request")
    assert found.fact("http.version") == version
    assert found.fact("dns.source") == "literal" and not found.facts("tls.version")


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_the_anthropic_surface_is_read_in_its_own_dialect(
    http: str, secure: Server, trust: tuple[str, str]
) -> None:
    found = ask(secure.url + MESSAGES, *trust, "--http", http)
    check_answer(found, *TLS_HOPS)
    assert found.fact("stream.dialect")["name"] == "anthropic"


def test_wait_and_generation_are_the_servers_pace(secure: Server, trust: tuple[str, str]) -> None:
    found = ask(secure.url + CHAT, *trust)
    assert found.hop_ms("wait") >= BASE_MS
    assert found.hop_ms("generation") >= (TOKENS - 1) * ITL_MS / 2
    assert {"queue", "prefill", "decode", "tokenize"} <= found.inside
    assert found.report["server"]["prefill_ms"] == pytest.approx(BASE_MS, abs=BASE_MS / 2)
    # No stamp lies before the server's own: both read one machine's clock.
    assert all(delay_ms >= 0 for delay_ms in found.delays_ms())


def test_the_stamp_is_the_arrival_not_our_reading_it(
    clear: Server,
) -> None:
    found = ask(clear.url + CHAT)
    # Loopback takes tens of microseconds; a busy machine may stop either process in between, so the
    # best of the events is judged.
    assert min(found.delays_ms()) < 1.0
    assert any(event["exact"] for event in found.texts)


def test_a_warm_run_has_no_dns_tcp_or_tls(secure: Server, trust: tuple[str, str]) -> None:
    cold, warm = trips(*prompt(secure.url + CHAT, *trust, "--warm"))
    check_answer(cold, *TLS_HOPS)
    check_answer(warm, "request")
    assert cold.fact("run") == {"kind": "cold", "index": 0, "reused": False}
    assert warm.fact("run") == {"kind": "warm", "index": 1, "reused": True}
    assert warm.report["latency"]["ttft_ms"] < warm.report["latency"]["e2e_ms"]


@pytest.mark.parametrize("http", ["1.1", "2"])
def test_a_warm_run_over_clear_text(http: str, clear: Server) -> None:
    cold, warm = trips(*prompt(clear.url + CHAT, "--warm", "--http", http))
    check_answer(cold, "dns", "tcp", "request")
    check_answer(warm, "request")


def test_repeat_makes_cold_runs_of_their_own(secure: Server, trust: tuple[str, str]) -> None:
    runs = trips(*prompt(secure.url + CHAT, *trust, "--repeat", "3", "--warm"))
    assert [run.fact("run")["kind"] for run in runs] == ["cold", "warm"] * 3
    for number, run in enumerate(runs):
        check_answer(run, *(TLS_HOPS if number % 2 == 0 else ("request",)))
    ports = {run.fact("tcp.local")["port"] for run in runs[::2]}
    assert len(ports) == 3


def test_without_a_url_the_server_is_started_traced_and_stopped() -> None:
    check_answer(trip("--max-tokens", str(TOKENS)), *TLS_HOPS)


def test_the_text_view_shows_the_trip_in_order(secure: Server, trust: tuple[str, str]) -> None:
    done = promptpath("trace", *prompt(secure.url + CHAT, *trust))
    titles = ["name resolution", "TCP connect", "TLS handshake", "request upload", "wait for the"]
    places = [done.out.index(title) for title in [*titles, "--- first token", "generation"]]
    assert done.code == 0 and places == sorted(places)
