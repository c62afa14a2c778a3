"""Our own queries against a real resolver: every answer, and every way to get none, told apart."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from promptpath.errors import MeasureError
from promptpath.model.enums import Outcome
from promptpath.model.names import DNS_DIFFERS, DNS_HTTPS, DNS_QUERY
from promptpath.model.plan import Family
from promptpath.model.rows import Json
from promptpath.probe.clock import RunClock
from promptpath.probe.dns import explain_resolution, lookup, resolve_by_query
from promptpath.probe.recorder import Recorder
from tests.peers.unbound import Unbound, unbound

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unbound]:
    with unbound(tmp_path_factory.mktemp("unbound")) as peer:
        yield peer


def ask(server: tuple[str, int], name: str, rdtype: str, limit_ns: int = 3 * 10**9) -> Recorder:
    recorder = Recorder(RunClock.start())

    async def once() -> None:
        await lookup(recorder, server, name, rdtype, None, recorder.now_ns() + limit_ns)

    asyncio.run(once())
    return recorder


def query(recorder: Recorder) -> dict[str, Json]:
    (value,) = [fact.value for fact in recorder.log.facts if fact.key == DNS_QUERY]
    assert isinstance(value, dict)
    return value


def addresses(server: tuple[str, int], name: str, family: Family = Family.ANY) -> tuple[str, ...]:
    recorder = Recorder(RunClock.start())

    async def once() -> tuple[str, ...]:
        deadline_ns = recorder.now_ns() + 4 * 10**9
        return await resolve_by_query(
            recorder, server, name, family, parent=1, deadline_ns=deadline_ns
        )

    return asyncio.run(once())


def test_an_answer_has_a_kernel_timed_round_trip(resolver: Unbound) -> None:
    recorder = ask((resolver.host, resolver.port), resolver.dual, "A")
    value = query(recorder)
    assert (value["outcome"], value["rcode"], value["answers"]) == (
        "answered",
        "NOERROR",
        ["127.0.0.1"],
    )
    assert value["ttl_s"] == 300
    assert 0 < value["rtt_ns"] < 1_000_000_000
    (span,) = recorder.log.spans
    assert span.outcome is Outcome.OK
    names = [mark.name for mark in recorder.log.marks]
    assert names == ["query-sent", "answer"]


def test_a_cut_answer_is_asked_again_over_tcp(resolver: Unbound) -> None:
    value = query(ask((resolver.host, resolver.port), resolver.truncated, "A"))
    assert (value["transport"], value["truncated"]) == ("tcp", True)
    assert len(value["answers"]) == 32


def test_both_families_are_dialled_ipv6_first(resolver: Unbound) -> None:
    server = (resolver.host, resolver.port)
    assert addresses(server, resolver.dual) == ("::1", "127.0.0.1")
    assert addresses(server, resolver.dual, Family.IPV4) == ("127.0.0.1",)


@pytest.mark.parametrize(
    ("field", "code", "says"),
    [
        ("nxdomain", "no-such-name", "NXDOMAIN"),
        ("servfail", "resolver-failed", "SERVFAIL"),
        ("refused", "resolver-refused", "REFUSED"),
        ("nodata", "no-address", "no address"),
        ("silent", "resolver-timeout", "did not answer"),
    ],
)
def test_each_failure_has_its_own_code(resolver: Unbound, field: str, code: str, says: str) -> None:
    with pytest.raises(MeasureError, match=says) as failure:
        addresses((resolver.host, resolver.port), getattr(resolver, field))
    assert failure.value.code == code
    assert failure.value.stage == "dns"
    assert failure.value.hint


def test_a_port_where_nothing_listens_is_refused_at_once() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    value = query(ask(("127.0.0.1", port), "ai.example", "A"))
    assert value["outcome"] == "refused"


def test_what_is_no_dns_is_malformed() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as liar:
        liar.bind(("127.0.0.1", 0))
        recorder = Recorder(RunClock.start())

        async def once() -> str:
            loop = asyncio.get_running_loop()
            liar.setblocking(False)
            server = liar.getsockname()
            deadline_ns = recorder.now_ns() + 10**9
            task = asyncio.create_task(
                lookup(recorder, server, "ai.example", "A", None, deadline_ns)
            )
            data, client = await loop.sock_recvfrom(liar, 2048)
            stranger = bytes([data[0] ^ 1]) + data[1:2] + b"\x81\x80 not ours at all"
            await loop.sock_sendto(liar, stranger, client)
            await loop.sock_sendto(liar, data[:2] + b"\x81\x80\xff\xff\xff\xff garbage", client)
            return (await task).outcome

        assert asyncio.run(once()) == "malformed"


def test_the_https_record_and_a_difference_are_recorded(resolver: Unbound) -> None:
    recorder = Recorder(RunClock.start())
    asyncio.run(
        explain_resolution(
            recorder,
            (resolver.host, resolver.port),
            resolver.https,
            443,
            system=["127.0.0.1", "192.0.2.1"],
        )
    )
    facts = {fact.key: fact.value for fact in recorder.log.facts}
    assert facts[DNS_HTTPS]["alpn"] == ["h2", "h3"]
    assert facts[DNS_DIFFERS] == {
        "system": ["127.0.0.1", "192.0.2.1"],
        "resolver": ["127.0.0.1"],
        "disjoint": False,
    }


def test_the_same_answer_is_no_difference(resolver: Unbound) -> None:
    recorder = Recorder(RunClock.start())
    asyncio.run(
        explain_resolution(
            recorder,
            (resolver.host, resolver.port),
            resolver.dual,
            443,
            system=["127.0.0.1", "::1"],
        )
    )
    assert DNS_DIFFERS not in {fact.key for fact in recorder.log.facts}
