"""A long, lossy way is no box: what TCP does there is never blamed on one."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from promptpath.analysis.buffering.from_trace import trace_evidence
from promptpath.analysis.buffering.judge import judge
from promptpath.analysis.buffering.judgement import BOX
from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.facts import rtt_ns, tcp_counter
from promptpath.analysis.view import measure
from promptpath.model.codec import decode_document
from tests.e2e.trip import CHAT, prompt
from tests.netns.path import ShimPath, require_netns
from tests.peers.process import START_S, accepts, running

pytestmark = [pytest.mark.netns, pytest.mark.slow]
PORT = 9001
TOKENS = 120


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    require_netns()


def wait_until_accepting(path: ShimPath) -> None:
    deadline = time.monotonic() + START_S
    with path.client.entered():
        while not accepts(PORT, path.server.address):
            assert time.monotonic() < deadline, "the server does not accept"
            time.sleep(0.05)


@pytest.mark.parametrize(("delay_ms", "loss"), [(20, 0.0), (20, 0.02), (40, 0.05)])
def test_a_healthy_stream_over_a_long_lossy_way_is_not_held(
    delay_ms: float, loss: float, tmp_path: Path
) -> None:
    server = [sys.executable, "-m", "reference_server", "--clear-text", "--port", str(PORT)]
    server += ["--base-ms", "30", "--itl-ms", "8", "--prefill-ms-per-token", "0", "--host"]
    saved = tmp_path / "trace.json"
    with ShimPath(delay_ms=delay_ms, loss=loss) as path:
        host = path.server.address
        with running(path.server.command(*server, host), log=tmp_path / "server.log"):
            wait_until_accepting(path)
            url = f"http://{host}:{PORT}{CHAT}"
            options = prompt(url, "--max-tokens", str(TOKENS), "-o", str(saved))
            command = path.client.command(sys.executable, "-m", "promptpath", "trace", *options)
            with running(command, log=tmp_path / "tool.log") as tool:
                assert tool.wait(30) in (0, 1)
    document = decode_document(saved.read_bytes())
    trace = document.runs[0].trace
    measured = measure(trace, document.plan)
    evidence = trace_evidence(
        trace,
        measured.scan,
        measured.headers,
        rtt_ns=rtt_ns(measured.facts, measured.conn),
        mtu=tcp_counter(measured.facts, "pmtu_bytes", measured.conn),
    )
    assert evidence is not None and measured.buffering is not None
    assert evidence.rtt_ns >= 2 * delay_ms * 1e6
    assert measured.buffering.stamped and measured.buffering.answer not in BOX
    assert judge(evidence, use_stamps=False).answer not in BOX
    codes = {finding.code for finding in diagnose(trace, document.plan).findings}
    assert not {code for code in codes if "PP411" <= code <= "PP420"}
