"""Real boxes before the bundled server: the verdict names what they do, and the cure it prints ends
it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from promptpath.analysis.buffering.from_trace import trace_evidence
from promptpath.analysis.buffering.judge import judge
from promptpath.analysis.buffering.judgement import Answer, Judgement
from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.facts import rtt_ns, tcp_counter
from promptpath.analysis.view import measure
from promptpath.model.codec import decode_document
from promptpath.model.report import Finding, Report
from tests.cli.running import promptpath
from tests.e2e.reference import Server, reference_server
from tests.e2e.trip import CHAT, prompt
from tests.peers.certs import Certificates
from tests.peers.haproxy import haproxy
from tests.peers.nginx import HTTP_1_1, STREAMING, nginx

pytestmark = [pytest.mark.peer, pytest.mark.slow]
TOKENS = 150
"""At 8 ms and some 285 bytes an event: 42 kB in 1.2 s, ten nginx buffers and two TLS records."""
ITL_MS = 8.0
DEAF = "proxy_ignore_headers X-Accel-Buffering;"
"""nginx as it is before a server that does not send the header."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Slow enough that a hold shows."""
    with reference_server(tmp_path_factory.mktemp("slow"), "--itl-ms", str(ITL_MS)) as found:
        yield found


@dataclass(frozen=True, slots=True)
class Seen:
    """One stream, judged with the server's stamps and without."""

    stamped: Judgement
    passive: Judgement
    report: Report

    @property
    def finding(self) -> Finding:
        """The one of the buffering family; the test fails without it."""
        return next(f for f in self.report.findings if "PP411" <= f.code <= "PP420")


def look(directory: Path, url: str, *options: str) -> Seen:
    """Trace a stream through what stands at `url`."""
    saved = directory / "trace.json"
    options = (*options, "--max-tokens", str(TOKENS), "-o", str(saved))
    done = promptpath("trace", *prompt(url + CHAT, *options))
    assert done.code in (0, 1), done.err
    document = decode_document(saved.read_bytes())
    trace = document.runs[0].trace
    measured = measure(trace, document.plan)
    assert measured.buffering is not None
    evidence = trace_evidence(
        trace,
        measured.scan,
        measured.headers,
        rtt_ns=rtt_ns(measured.facts, measured.conn),
        mtu=tcp_counter(measured.facts, "pmtu_bytes", measured.conn),
    )
    assert evidence is not None
    assert len(evidence.events) == TOKENS
    passive = judge(evidence, use_stamps=False)
    return Seen(measured.buffering, passive, diagnose(trace, document.plan))


def check_streams(seen: Seen) -> None:
    """Nothing is held, and nobody says so."""
    assert seen.stamped.answer is Answer.STREAMING, seen.stamped
    assert seen.passive.answer is Answer.STREAMING, seen.passive
    assert not [f.code for f in seen.report.findings if "PP411" <= f.code <= "PP420"]


def check_held(seen: Seen, *answers: Answer) -> None:
    """Both ways of judging give one of these, and a tenth was held a noticed time."""
    assert seen.stamped.answer in answers, seen.stamped
    assert seen.passive.answer in answers, seen.passive
    assert seen.stamped.hold is not None and seen.passive.hold is not None
    assert seen.stamped.hold.p90_ns > 50e6
    assert "Cure: " in seen.finding.advice


def test_the_server_alone_streams(server: Server, tmp_path: Path) -> None:
    check_streams(look(tmp_path, server.url))


def test_nginx_as_it_comes_fills_4096_bytes(server: Server, tmp_path: Path) -> None:
    with nginx(tmp_path, server.url, extra=DEAF, upstream_version="") as url:
        seen = look(tmp_path, url)
    check_held(seen, Answer.SIZE_BUFFER)
    assert seen.stamped.size_bytes == seen.passive.size_bytes == 4096
    assert "proxy_buffering off;" in seen.finding.advice
    assert seen.finding.code == "PP412"


def test_nginx_with_its_cure_streams(server: Server, tmp_path: Path) -> None:
    with nginx(tmp_path, server.url, extra=DEAF + STREAMING, upstream_version="") as url:
        check_streams(look(tmp_path, url))


def test_the_servers_header_cures_nginx_too(server: Server, tmp_path: Path) -> None:
    with nginx(tmp_path, server.url, extra="", upstream_version="") as url:
        check_streams(look(tmp_path, url))


GZIP = "gzip on; gzip_types text/event-stream; gzip_min_length 0; gzip_proxied any;"
ASK_GZIP = ("-H", "Accept-Encoding: gzip")


def test_nginx_gzip_holds_and_says_so(server: Server, tmp_path: Path) -> None:
    with nginx(tmp_path, server.url, extra=DEAF + GZIP, upstream_version="") as url:
        seen = look(tmp_path, url, *ASK_GZIP)
    check_held(seen, Answer.COMPRESSION, Answer.WHOLE_BODY)
    assert seen.report.verdicts[0].answer == "box"


def test_nginx_gzip_flushes_once_nothing_is_buffered(server: Server, tmp_path: Path) -> None:
    with nginx(tmp_path, server.url, extra=DEAF + GZIP + STREAMING) as url:
        check_streams(look(tmp_path, url, *ASK_GZIP))


def test_nginx_fills_tls_records_on_http_1_1(
    server: Server, certs: Certificates, trust: tuple[str, str], tmp_path: Path
) -> None:
    box = nginx(tmp_path, server.url, tls=certs.good, http2=False, extra=DEAF)
    with box as url:
        seen = look(tmp_path, url, *trust, "--http", "1.1")
    check_held(seen, Answer.TLS_RECORD_BUFFER)
    assert seen.stamped.size_bytes is not None and seen.stamped.size_bytes > 16_000


@pytest.mark.parametrize("cure", ["proxy_buffering off", "HTTP/2"])
def test_either_cure_empties_the_tls_records(
    cure: str, server: Server, certs: Certificates, trust: tuple[str, str], tmp_path: Path
) -> None:
    http2 = cure == "HTTP/2"
    extra = DEAF if http2 else DEAF + STREAMING
    with nginx(tmp_path, server.url, tls=certs.good, http2=http2, extra=extra) as url:
        check_streams(look(tmp_path, url, *trust))


def test_haproxy_as_it_comes_corks(server: Server, tmp_path: Path) -> None:
    with haproxy(tmp_path, server.url) as url:
        seen = look(tmp_path, url)
    check_held(seen, Answer.TRANSPORT_CORK)
    assert "option http-no-delay" in seen.finding.advice
    assert seen.finding.severity.value != "error"


def test_haproxy_with_its_cure_streams(server: Server, tmp_path: Path) -> None:
    with haproxy(tmp_path, server.url, options="option http-no-delay") as url:
        check_streams(look(tmp_path, url))


def test_nginx_with_http_1_1_to_the_server_streams_in_clear_text(
    server: Server, tmp_path: Path
) -> None:
    with nginx(tmp_path, server.url, extra=DEAF, upstream_version=HTTP_1_1) as url:
        seen = look(tmp_path, url)
    # Nagle is on there: a burst now and then is allowed, a box is not.
    assert seen.stamped.answer in (Answer.STREAMING, Answer.TRANSPORT_CORK)
