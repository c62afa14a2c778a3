"""Names that do not resolve, and addresses that do not answer: exit 3 at dns or tcp."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.tool import CHAT, trace
from tests.peers.process import free_port
from tests.peers.unbound import Unbound, unbound


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unbound]:
    with unbound(tmp_path_factory.mktemp("unbound")) as running:
        yield running


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port that answers no SYN: its backlog is full, and Linux drops the SYNs beyond it
    (listen(2), tcp_abort_on_overflow off)."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                sock = stack.enter_context(socket.socket())
                sock.setblocking(False)
                sock.connect_ex(("127.0.0.1", port))
            yield port


NAMES = {
    "no such name": ("nxdomain", "no-such-name", "PP103"),
    "a resolver that fails": ("servfail", "resolver-failed", "PP104"),
    "a resolver that refuses": ("refused", "resolver-refused", "PP105"),
    "a name without addresses": ("nodata", "no-address", "PP107"),
}


@pytest.mark.peer
@pytest.mark.parametrize(("name", "code", "rule"), NAMES.values(), ids=NAMES.keys())
def test_each_way_a_name_can_fail_is_told_apart(
    tmp_path: Path, resolver: Unbound, name: str, code: str, rule: str
) -> None:
    host = getattr(resolver, name)
    result = trace(tmp_path, f"http://{host}:1{CHAT}", "--resolver", resolver.address)
    result.failed_at("dns", code)
    assert host in result.out
    assert rule in result.codes()
    assert result.stages() == ["dns"]
    assert result.fact("dns.query")["rtt_ns"] is not None


@pytest.mark.peer
def test_a_resolver_that_never_answers_uses_up_the_connect_timeout(
    tmp_path: Path, resolver: Unbound
) -> None:
    url = f"http://{resolver.silent}:1{CHAT}"
    options = ("--resolver", resolver.address, "--connect-timeout", "500ms")
    result = trace(tmp_path, url, *options, limit_s=10)
    result.failed_at("dns", "resolver-timeout")
    assert result.spans("timed-out") == {"dns"}
    assert 450 < result.report["latency"]["e2e_ms"] < 2_000


def test_a_resolver_that_is_not_there_is_named(tmp_path: Path) -> None:
    port = free_port(socket.SOCK_DGRAM)
    options = ("--resolver", f"127.0.0.1:{port}", "--connect-timeout", "2s")
    result = trace(tmp_path, f"http://www.promptpath.test:1{CHAT}", *options, limit_s=10)
    result.failed_at("dns")
    assert f"127.0.0.1:{port}" in result.out


def test_a_name_the_system_does_not_know_stops_at_dns(tmp_path: Path) -> None:
    # RFC 6761, 6.4: no resolver may know a name under .invalid.
    url = f"http://nowhere.invalid{CHAT}"
    result = trace(tmp_path, url, "--connect-timeout", "3s", limit_s=10)
    result.failed_at("dns")
    assert "nowhere.invalid" in result.out


def test_a_refused_port_is_told_from_a_silent_one(tmp_path: Path) -> None:
    result = trace(tmp_path, f"http://127.0.0.1:{free_port()}{CHAT}")
    result.failed_at("tcp", "refused")
    assert "PP202" in result.codes()
    assert result.stages() == ["dns", "tcp"]


def test_a_black_holed_address_ends_at_the_connect_timeout(tmp_path: Path) -> None:
    with black_hole() as port:
        url = f"http://127.0.0.1:{port}{CHAT}"
        result = trace(tmp_path, url, "--connect-timeout", "400ms", limit_s=10)
    hint = result.failed_at("tcp", "connect-timeout")
    assert "firewall" in hint
    assert "PP203" in result.codes()
    assert result.spans("timed-out") == {"tcp"}
    assert 390 < result.report["latency"]["e2e_ms"] < 2_000


def test_the_total_timeout_bounds_a_black_hole_too(tmp_path: Path) -> None:
    with black_hole() as port:
        url = f"http://127.0.0.1:{port}{CHAT}"
        result = trace(tmp_path, url, "--timeout", "400ms", limit_s=10)
    result.failed_at("tcp", "connect-timeout")
    assert result.report["latency"]["e2e_ms"] < 2_000


def test_an_unusable_source_address_is_named(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}{CHAT}"
    # 192.0.2.0/24 is for documentation (RFC 5737): no interface has it.
    result = trace(tmp_path, url, "--source", "192.0.2.1")
    hint = result.failed_at("tcp", "source-address")
    assert "--source" in hint


def test_an_unknown_interface_is_named(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}{CHAT}"
    result = trace(tmp_path, url, "--interface", "nosuch0")
    hint = result.failed_at("tcp", "interface")
    assert "ip link" in hint
