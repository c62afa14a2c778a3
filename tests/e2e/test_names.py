"""Names and addresses: who gave them, what each query said, and what a dead address cost."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.reference import Server, reference_server
from tests.e2e.trip import CHAT, ask, check_answer
from tests.peers.unbound import Unbound, unbound

CLEAR = ("dns", "tcp", "request")
TRY_NEXT_MS = 250
"""RFC 8305 section 5: when the next address is tried beside one that is silent."""
IDN, A_LABEL = "bücher.promptpath.test", "xn--bcher-kva.promptpath.test"


@pytest.fixture(scope="module")
def resolver(clear: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unbound]:
    # Beside port 443 the HTTPS record's name carries the port (RFC 9460 section 2.3).
    service = f"_{clear.port}._https.api.promptpath.test."
    records = [f"{A_LABEL}. 60 A 127.0.0.1", f"{service} 60 HTTPS 1 . alpn=h2,h3"]
    with unbound(tmp_path_factory.mktemp("unbound"), records) as running:
        yield running


def url(name: str, server: Server) -> str:
    """The server by a name."""
    return f"http://{name}:{server.port}{CHAT}"


@contextlib.contextmanager
def black_hole(port: int) -> Iterator[None]:
    """[::1]:port drops every SYN: its accept queue is full (listen(2)), which Linux does not
    answer."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_INET6))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("::1", port))
        listener.listen(0)
        for _ in range(4):
            client = stack.enter_context(socket.socket(socket.AF_INET6))
            client.setblocking(False)
            client.connect_ex(("::1", port))
        yield


@pytest.mark.peer
def test_the_resolver_asked_for_gives_the_addresses_and_all_records(
    resolver: Unbound, clear: Server
) -> None:
    found = ask(url(resolver.https, clear), "--resolver", resolver.address)
    check_answer(found, *CLEAR)
    assert found.fact("dns.source") == "resolver"
    assert found.fact("dns.addresses") == ["127.0.0.1"]
    queries = {query["type"]: query for query in found.facts("dns.query")}
    assert set(queries) == {"A", "AAAA", "HTTPS"}
    assert all(query["server"] == resolver.address for query in queries.values())
    assert all(query["outcome"] == "answered" for query in queries.values())
    assert queries["A"]["answers"] == ["127.0.0.1"] and queries["A"]["ttl_s"] == 120
    assert queries["AAAA"]["answers"] == []
    assert all(query["rtt_ns"] > 0 for query in queries.values())
    https = found.fact("dns.https")
    assert https["alpn"] == ["h2", "h3"]
    # The hop is the slower of the two queries that give addresses, and nothing of ours.
    waited_ms = max(queries[kind]["rtt_ns"] for kind in ("A", "AAAA")) / 1e6
    assert waited_ms <= found.hop_ms("dns") < waited_ms + 20


@pytest.mark.peer
def test_a_truncated_answer_is_asked_for_again_over_tcp(resolver: Unbound, tmp_path: Path) -> None:
    # Its 200 addresses are all in 127.0.0.0/16: a server on every one of them.
    with reference_server(tmp_path, host="0.0.0.0") as server:
        found = ask(url(resolver.truncated, server), "--resolver", resolver.address, "-4")
    check_answer(found, *CLEAR)
    (query,) = [query for query in found.facts("dns.query") if query["type"] == "A"]
    assert (query["transport"], query["truncated"]) == ("tcp", True)
    assert len(found.fact("dns.addresses")) == 200
    assert set(query["answers"]) <= set(found.fact("dns.addresses"))
    assert found.fact("tcp.peer")["address"] == found.fact("dns.addresses")[0]


@pytest.mark.peer
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nxdomain", "no-such-name"),
        ("nodata", "no-address"),
        ("refused", "resolver-refused"),
        ("servfail", "resolver-failed"),
    ],
)
def test_names_that_do_not_resolve_are_told_apart(
    name: str, code: str, resolver: Unbound, clear: Server
) -> None:
    host: str = getattr(resolver, name)
    found = ask(url(host, clear), "--resolver", resolver.address, code=3)
    assert found.stages == ["dns"]
    failure = found.fact("failure")
    assert (failure["stage"], failure["code"]) == ("dns", code) and failure["hint"]


@pytest.mark.peer
def test_an_idn_is_asked_for_as_a_label(resolver: Unbound, clear: Server) -> None:
    found = ask(url(IDN, clear), "--resolver", resolver.address)
    check_answer(found, *CLEAR)
    assert found.fact("dns.host") == A_LABEL


@pytest.mark.parametrize("name", [IDN, A_LABEL])
def test_resolve_overrides_a_name_that_exists_nowhere(name: str, clear: Server) -> None:
    found = ask(url(IDN, clear), "--resolve", f"{name}:{clear.port}:127.0.0.1")
    check_answer(found, *CLEAR)
    assert found.fact("dns.source") == "override"
    assert not found.facts("dns.query")


def test_localhost_comes_from_the_hosts_file(clear: Server) -> None:
    found = ask(url("localhost", clear), "-4")
    check_answer(found, *CLEAR)
    assert found.fact("dns.source") == "hosts"
    assert found.fact("dns.addresses") == ["127.0.0.1"]


@pytest.mark.peer
def test_a_refused_ipv6_address_costs_next_to_nothing_and_is_shown(
    resolver: Unbound, clear: Server
) -> None:
    found = ask(url(resolver.dual, clear), "--resolver", resolver.address)
    check_answer(found, *CLEAR)
    assert found.fact("dns.addresses") == ["::1", "127.0.0.1"]
    (loser, winner) = found.spans("connect")
    assert (loser["outcome"], winner["outcome"]) == ("failed", "ok")
    assert "refused" in loser["error"] and "[::1]" in loser["error"]
    assert found.fact("tcp.peer")["address"] == "127.0.0.1"
    assert found.hop_ms("tcp") < TRY_NEXT_MS


@pytest.mark.peer
def test_a_silent_ipv6_address_costs_250_ms_and_is_shown(resolver: Unbound, clear: Server) -> None:
    with black_hole(clear.port):
        found = ask(url(resolver.dual, clear), "--resolver", resolver.address)
    check_answer(found, *CLEAR)
    (loser, winner) = found.spans("connect")
    assert (loser["outcome"], winner["outcome"]) == ("cancelled", "ok")
    assert winner["start_ns"] - loser["start_ns"] >= TRY_NEXT_MS * 1e6
    assert found.hop_ms("tcp") >= TRY_NEXT_MS
    assert found.fact("tcp.peer")["address"] == "127.0.0.1"
    assert "PP201" in found.codes


@pytest.mark.peer
def test_four_takes_ipv4_only(resolver: Unbound, clear: Server) -> None:
    with black_hole(clear.port):
        found = ask(url(resolver.dual, clear), "--resolver", resolver.address, "-4")
    check_answer(found, *CLEAR)
    assert len(found.spans("connect")) == 1
    assert found.hop_ms("tcp") < TRY_NEXT_MS
    assert {query["type"] for query in found.facts("dns.query")} == {"A", "HTTPS"}


@pytest.mark.peer
def test_six_takes_ipv6_only(resolver: Unbound, tmp_path: Path) -> None:
    with reference_server(tmp_path, host="::1") as server:
        found = ask(url(resolver.dual, server), "--resolver", resolver.address, "-6")
    check_answer(found, *CLEAR)
    assert found.fact("tcp.peer") == {"address": "::1", "port": server.port, "family": "ipv6"}


@pytest.mark.peer
def test_six_for_a_name_without_ipv6_says_so(resolver: Unbound, clear: Server) -> None:
    found = ask(url(resolver.four_only, clear), "--resolver", resolver.address, "-6", code=3)
    assert found.fact("failure")["code"] == "no-address"
