"""`trace --http 3` against the bundled server with its faults, and against servers of others."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aioquic._buffer import Buffer
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import pull_quic_header

from tests.cli.running import promptpath
from tests.e2e.reference import Server, reference_server
from tests.e2e.trip import ANSWER, CHAT, MESSAGES, TOKENS, Trip, ask, check_answer, trip, trips
from tests.e2e.trip import prompt as arguments
from tests.peers.caddy import caddy
from tests.peers.certs import Certificates, Leaf

H3_HOPS = ("dns", "quic", "request")


def steps(found: Trip, conn: int = 1) -> list[str]:
    """The steps of a connection's handshake, in order."""
    marks = [mark for mark in found.marks("quic-step") if mark["conn"] == conn]
    return [mark["detail"]["step"] for mark in marks]


def fault(
    directory: Path, certs: Certificates, *options: str, code: int = 0, more: tuple[str, ...] = ()
) -> Trip:
    """One prompt to a server with these options."""
    with reference_server(directory, *options, tls=certs.good) as server:
        return ask(server.url + CHAT, "--cacert", str(certs.ca), "--http", "3", *more, code=code)


def test_every_hop_is_there(secure: Server, trust: tuple[str, str]) -> None:
    found = ask(secure.url + CHAT, *trust, "--http", "3")
    check_answer(found, *H3_HOPS)
    assert found.fact("http.version") == "3" and found.fact("http.framing") == "h3-data"
    handshake = found.fact("quic.handshake")
    assert (handshake["version"], handshake["round_trips"], handshake["alpn"]) == ("v1", 1, "h3")
    assert steps(found)[:3] == ["initial-sent", "initial-received", "handshake-received"]
    assert found.fact("tls.verify")["verified"] is True
    assert found.fact("tls.chain")[0]["names"] and found.fact("tls.resumed")["accepted"] is True
    assert found.fact("quic.parameters")["max_idle_timeout"] > 0
    assert found.fact("quic.peer")["port"] == secure.port
    assert {"queue", "prefill", "decode"} <= found.inside
    packets = next(each for each in found.facts("quic.packets") if each["conn"] == 1)
    assert packets["sent"] > 3 and packets["received"] > 3 and packets["lost"] == 0
    ecn = next(each for each in found.facts("quic.ecn") if each["conn"] == 1)
    assert ecn["not_ect"] > 3 and ecn["ce"] == 0
    rtt = next(each for each in found.facts("quic.rtt") if each["conn"] == 1)
    assert 0 < rtt["min_ns"] <= rtt["first_ns"]


def test_every_datagram_has_a_kernel_stamp(secure: Server, trust: tuple[str, str]) -> None:
    found = ask(secure.url + CHAT, *trust, "--http", "3")
    datagrams = [each for each in found.trace["arrivals"] if each["layer"] == "datagram"]
    assert datagrams and all(each["clock"] == "kernel" for each in datagrams)
    assert all(event["exact"] for event in found.texts)


def test_the_anthropic_surface_and_a_get(secure: Server, trust: tuple[str, str]) -> None:
    found = ask(secure.url + MESSAGES, *trust, "--http", "3")
    check_answer(found, *H3_HOPS)
    assert found.fact("stream.dialect")["name"] == "anthropic"
    got = trip(secure.url + "/healthz", *trust, "--http", "3", "--proxy", "none")
    assert got.fact("http.status") == 200


def test_a_first_connection_is_not_said_to_be_resumed(
    secure: Server, trust: tuple[str, str]
) -> None:
    """That the second one resumes, off the critical path, is another matter."""
    shown = promptpath("trace", *arguments(secure.url + CHAT, *trust, "--http", "3"))
    assert shown.code == 0 and "TLS 1.3" in shown.out and "resumed" not in shown.out.split("hop")[0]


def test_a_handshake_that_is_never_confirmed_is_given_up(
    certs: Certificates, tmp_path: Path
) -> None:
    with reference_server(tmp_path, "--quic-fault", "half-handshake", tls=certs.good) as server:
        trust = ("--cacert", str(certs.ca), "--connect-timeout", "2s")
        found = ask(server.url + CHAT, *trust, "--http", "3", code=3)
        alone = promptpath("quic", f"localhost:{server.port}", *trust, "-4")
    assert found.fact("quic.close")["how"] == "unconfirmed" and "PP238" in found.codes
    assert "never confirmed" in found.fact("failure")["what"]
    assert alone.code == 3 and "never confirmed" in alone.out and "PP238" in alone.out


def test_a_warm_request_has_no_handshake(secure: Server, trust: tuple[str, str]) -> None:
    options = [*arguments(secure.url + CHAT, *trust, "--http", "3"), "--warm"]
    cold, warm = trips(*options)
    assert cold.stages[:3] == ["dns", "quic", "request"]
    assert warm.stages[0] == "request" and not warm.spans("handshake")
    assert len(warm.texts) == TOKENS


@pytest.mark.parametrize(
    ("option", "round_trips", "code", "step"),
    [
        (("--quic-retry",), 2, "PP220", "retry"),
        (("--quic-fault", "version-negotiation"), 2, "PP221", "version-negotiation"),
        (("--quic-fault", "lost-initial=1"), 1, "PP222", "initial-sent"),
    ],
)
def test_what_lengthens_a_handshake_is_named(
    option: tuple[str, ...],
    round_trips: int,
    code: str,
    step: str,
    certs: Certificates,
    tmp_path: Path,
) -> None:
    found = fault(tmp_path, certs, *option)
    check_answer(found, *H3_HOPS)
    assert code in found.codes
    assert found.fact("quic.handshake")["round_trips"] == round_trips
    version = "v2" if "version-negotiation" in option else "v1"
    assert found.fact("quic.handshake")["version"] == version
    assert step in steps(found)[1:]


@pytest.mark.parametrize(
    ("word", "code", "how", "says"),
    [
        ("close=3:258:because", "PP227", "close", "0x102 (because)"),
        ("transport-close=3:10:worse", "PP227", "close", "QUIC code 0xa (worse)"),
        ("stateless-reset=3", "PP228", "stateless-reset", "stateless reset"),
    ],
)
def test_an_end_within_the_answer_is_named_with_its_code_and_reason(
    word: str, code: str, how: str, says: str, certs: Certificates, tmp_path: Path
) -> None:
    found = fault(tmp_path, certs, "--quic-fault", word, code=1)
    assert found.texts, "what came before is kept"
    assert found.fact("quic.close")["how"] == how
    (finding,) = [each for each in found.report["findings"] if each["code"] == code]
    assert says in finding["because"][0]["text"]
    assert "PP511" not in found.codes


def test_goaway_lets_the_answer_end_and_says_so(certs: Certificates, tmp_path: Path) -> None:
    found = fault(tmp_path, certs, "--quic-fault", "goaway=2")
    check_answer(found, *H3_HOPS)
    assert found.marks("goaway") and "PP514" in found.codes


def test_an_idle_timeout_within_the_stream(certs: Certificates, tmp_path: Path) -> None:
    """Said beforehand by PP223, and when it happens by PP229."""
    with reference_server(tmp_path, "--quic-idle-timeout-s", "1", tls=certs.good) as server:
        url = server.url + "/promptpath/silence?silence_ms=20000"
        options = ("--cacert", str(certs.ca), "--http", "3", "--proxy", "none")
        found = trip(url, *options, code=1)
    assert found.fact("quic.parameters")["effective_idle_ms"] == 1000
    assert {"PP223", "PP229"} <= found.codes
    assert found.fact("quic.close")["by"] == "timer"


def test_a_retry_loop_is_no_handshake(certs: Certificates, tmp_path: Path) -> None:
    more = ("--connect-timeout", "3s")
    found = fault(tmp_path, certs, "--quic-fault", "retry-loop", code=3, more=more)
    assert found.fact("failure")["code"] == "retry-loop" and "PP234" in found.codes


def test_early_data_is_tried_with_a_harmless_request(certs: Certificates, tmp_path: Path) -> None:
    found = fault(tmp_path, certs, more=("--early-data",))
    early = found.fact("quic.early_data")
    assert early["accepted"] is True and early["request"] == "GET /" and early["status"] == 200
    assert early["saved_ns"] > 0 and "PP231" in found.codes
    assert found.fact("http.request")["method"] == "POST"


def test_after_a_retry_the_early_request_is_sent_again(certs: Certificates, tmp_path: Path) -> None:
    found = fault(tmp_path, certs, "--quic-retry", more=("--early-data",))
    early = found.fact("quic.early_data")
    assert early["retried"] is True and early["status"] == 200 and early["saved_ns"] is None


def test_a_certificate_for_another_name_is_refused(secure: Server, trust: tuple[str, str]) -> None:
    url = f"https://other.example:{secure.port}{CHAT}"
    resolve = f"other.example:{secure.port}:127.0.0.1"
    found = ask(url, *trust, "--http", "3", "--resolve", resolve, code=3)
    assert found.fact("failure")["code"] == "cert-wrong-host"
    assert "PP307" in found.codes and "PP305" not in found.codes
    assert found.fact("tls.verify")["verified"] is False and found.fact("tls.chain")
    measured = ask(url, *trust, "--http", "3", "--resolve", resolve, "--insecure")
    check_answer(measured, *H3_HOPS)


def test_an_unknown_authority_is_refused(secure: Server) -> None:
    found = ask(secure.url + CHAT, "--http", "3", code=3)
    assert found.fact("failure")["code"] == "cert-unknown-ca"
    assert "PP306" in found.codes and "PP305" not in found.codes


def test_names_that_no_library_can_read_are_no_crash(tmp_path: Path) -> None:
    """A SAN like *.test raises out of service_identity: aioquic is not asked for its opinion."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    made = authority.issue_cert("*.test")
    made.private_key_pem.write_to_path(str(tmp_path / "leaf.key"))
    (tmp_path / "leaf.pem").write_bytes(made.cert_chain_pems[0].bytes())
    leaf = Leaf(tmp_path / "leaf.pem", tmp_path / "leaf.key")
    with reference_server(tmp_path, tls=leaf) as server:
        url = f"https://name.test:{server.port}{CHAT}"
        resolve = ("--resolve", f"name.test:{server.port}:127.0.0.1")
        found = ask(url, "--cacert", str(tmp_path / "ca.pem"), "--http", "3", *resolve)
    check_answer(found, *H3_HOPS)


def test_a_port_without_udp_is_rejected(certs: Certificates, tmp_path: Path) -> None:
    found = fault(tmp_path, certs, "--no-http3", code=3)
    assert found.fact("failure")["code"] == "udp-rejected" and "PP226" in found.codes
    assert found.stages == ["dns", "quic"]


def test_a_server_without_h3_is_named(certs: Certificates) -> None:
    """It speaks QUIC, and knows another protocol only (RFC 7301, 3.2)."""
    with quic_server(certs, alpn="doq") as port:
        url = f"https://localhost:{port}{CHAT}"
        found = ask(url, "--cacert", str(certs.ca), "--http", "3", "-4", code=3)
    assert found.fact("failure")["code"] == "alpn-mismatch" and "PP233" in found.codes


def test_a_server_that_stops_within_the_handshake(certs: Certificates) -> None:
    """Its first datagram comes, and nothing after it: a path that loses large packets does that."""
    with quic_server(certs, alpn="h3", answers=1) as port:
        url = f"https://localhost:{port}{CHAT}"
        options = ("--cacert", str(certs.ca), "--http", "3", "-4", "--connect-timeout", "1s")
        found = ask(url, *options, code=3)
    assert found.fact("failure")["code"] == "connect-timeout"
    assert "initial-received" in steps(found) and "completed" not in steps(found)


@contextmanager
def quic_server(certs: Certificates, *, alpn: str, answers: int | None = None) -> Iterator[int]:
    """aioquic as it is, with no HTTP above it; after `answers` datagrams it says no more."""
    configuration = QuicConfiguration(is_client=False, alpn_protocols=[alpn])
    # A chain that needs more than one datagram.
    configuration.load_cert_chain(str(certs.chained.chain), str(certs.chained.key))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]

        def serve() -> None:
            quic: QuicConnection | None = None
            left = answers
            while True:
                data, peer = sock.recvfrom(65_535)
                if data == b"stop":
                    return
                if quic is None:
                    header = pull_quic_header(Buffer(data=data), host_cid_length=8)
                    original = header.destination_cid
                    quic = QuicConnection(
                        configuration=configuration, original_destination_connection_id=original
                    )
                quic.receive_datagram(data, peer, time.monotonic())
                for out, _ in quic.datagrams_to_send(time.monotonic()):
                    if left is None or left > 0:
                        sock.sendto(out, peer)
                    left = None if left is None else left - 1

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield port
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"stop", ("127.0.0.1", port))
            thread.join()


@contextmanager
def answering(reply: bytes | None) -> Iterator[int]:
    """A UDP port that answers every datagram with the same bytes, or with nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                data, peer = sock.recvfrom(65_535)
                if data == b"stop":
                    return
                if reply is not None:
                    sock.sendto(reply, peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            stop.set()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"stop", sock.getsockname())
            thread.join()


@pytest.mark.parametrize(
    ("reply", "code", "finding"),
    [
        (None, "udp-silent", "PP225"),
        (b"220 no quic here\r\n", "not-quic", "PP233"),
        (b"\xc0" + b"\x00" * 1199, "not-quic", "PP233"),
        (b"\xff" * 60_000, "not-quic", "PP233"),
    ],
)
def test_what_answers_no_quic(reply: bytes | None, code: str, finding: str) -> None:
    with answering(reply) as port:
        url = f"https://127.0.0.1:{port}{CHAT}"
        found = ask(url, "--http", "3", "--connect-timeout", "1s", code=3)
    assert found.fact("failure")["code"] == code and finding in found.codes


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("http://127.0.0.1:1/v1/chat/completions",), "HTTP/3 needs an https URL"),
        (
            ("https://127.0.0.1:1/v1/chat/completions", "--proxy", "http://127.0.0.1:2"),
            "cannot go through the http proxy",
        ),
    ],
)
def test_what_quic_cannot_do_is_wrong_usage(options: tuple[str, ...], says: str) -> None:
    done = promptpath("trace", *options, "--model", "m", "--http", "3")
    assert done.code == 2 and says in done.err and "hint:" in done.err


def test_h3_on_offer_is_tried_after_the_stream(secure: Server, trust: tuple[str, str]) -> None:
    found = ask(secure.url + CHAT, *trust)
    assert found.fact("http.version") == "2"
    assert found.fact("quic.udp")["what"] == "answered" and "PP230" not in found.codes


def test_quic_wins_the_race_where_udp_gets_through(secure: Server, trust: tuple[str, str]) -> None:
    found = ask(secure.url + CHAT, *trust, "--http", "race")
    check_answer(found, *H3_HOPS)
    assert found.fact("quic.race") == {"winner": "quic", "why": None, "cost_ns": None}
    assert found.fact("http.version") == "3" and "PP235" not in found.codes


def test_tcp_wins_the_race_at_once_where_udp_is_rejected(
    certs: Certificates, tmp_path: Path
) -> None:
    found = fault(tmp_path, certs, "--no-http3", more=("--http", "race"))
    assert found.stages == ["dns", "quic", "tcp", "tls", "request", *ANSWER]
    raced = found.fact("quic.race")
    assert raced["winner"] == "tcp" and "rejected" in raced["why"] and "PP235" in found.codes
    assert found.fact("http.version") == "2"


def test_silence_costs_the_head_start(certs: Certificates, tmp_path: Path) -> None:
    with reference_server(tmp_path, "--no-http3", tls=certs.good) as server:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
            deaf.bind(("127.0.0.1", server.port))
            found = ask(server.url + CHAT, "--cacert", str(certs.ca), "--http", "race")
    assert found.stages == ["dns", "quic", "tcp", "tls", "request", *ANSWER]
    assert found.fact("quic.race")["winner"] == "tcp"
    assert found.fact("quic.race")["cost_ns"] >= 250_000_000
    assert found.hop_ms("quic") >= 249


def test_the_key_log_opens_the_capture(
    secure: Server, trust: tuple[str, str], tmp_path: Path
) -> None:
    keys = tmp_path / "keys.log"
    ask(secure.url + CHAT, *trust, "--http", "3", "--keylog", str(keys))
    labels = {line.split()[0] for line in keys.read_text().splitlines()}
    assert {"CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_TRAFFIC_SECRET_0"} <= labels


def test_through_caddy(certs: Certificates, clear: Server, tmp_path: Path) -> None:
    with caddy(tmp_path, clear.url, tls=certs.good) as url:
        found: Any = ask(url + CHAT, "--cacert", str(certs.ca), "--http", "3")
    check_answer(found, *H3_HOPS)
    assert found.fact("quic.handshake")["round_trips"] == 1
    assert found.headers["server"].lower() == "caddy"
