"""A check fails on nginx as it comes, and passes once the cure that it prints is in its config."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Done, promptpath
from tests.e2e.reference import Server, reference_server
from tests.e2e.trip import CHAT, MODEL
from tests.peers.nginx import nginx

pytestmark = [pytest.mark.peer, pytest.mark.slow]
TOKENS = 100
"""At 20 ms and some 285 bytes an event: seven nginx buffers in 2 s, each held up to 280 ms."""
DEAF = "proxy_ignore_headers X-Accel-Buffering; "
"""nginx as it is before a server that does not send the header."""
BUDGETS = ("--require-streaming", "--require-terminal", "--max-hold", "100ms")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with reference_server(tmp_path_factory.mktemp("slow"), "--itl-ms", "20") as found:
        yield found


def check(url: str, *options: str) -> Done:
    asked = ["--model", MODEL, "--max-tokens", str(TOKENS), "--timeout", "20s", "--proxy", "none"]
    return promptpath("check", url, *asked, *options)


def cure_of(out: str) -> str:
    """nginx' own lines, as they are printed."""
    found = re.search(r"Cure: nginx: (.+?) \(verified here", out)
    assert found is not None, out
    return found[1]


def test_nginx_as_it_comes_fails_and_passes_with_the_printed_cure(
    server: Server, tmp_path: Path
) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    with nginx(before, server.url, extra=DEAF, upstream_version="") as url:
        failed = check(url + CHAT, *BUDGETS)
    assert failed.code == 1, failed.out + failed.err
    assert "!! require-streaming: broken; size-buffer" in failed.out
    assert "!! max-hold 100 ms: broken" in failed.out
    assert "!! PP412 Events are held until a buffer is full (error)" in failed.out
    assert "ok require-terminal: kept" in failed.out
    with nginx(after, server.url, extra=DEAF + cure_of(failed.out), upstream_version="") as url:
        passed = check(url + CHAT, *BUDGETS)
    assert passed.code == 0, passed.out + passed.err
    assert "ok require-streaming: kept; streaming" in passed.out


def test_a_finding_that_is_allowed_does_not_fail(server: Server, tmp_path: Path) -> None:
    with nginx(tmp_path, server.url, extra=DEAF, upstream_version="") as url:
        done = check(url + CHAT, "--allow", "PP412", "--require-streaming")
    assert done.code == 0, done.out + done.err
    assert "PP412 Events are held until a buffer is full (allowed)" in done.out


def test_a_silence_that_nginx_ends_breaks_min_idle(server: Server, tmp_path: Path) -> None:
    with nginx(tmp_path, server.url, extra="proxy_read_timeout 3s;") as url:
        done = check(url + CHAT, "--min-idle", "5s")
        assert done.code == 1, done.out + done.err
        assert "!! min-idle 5.00 s: broken" in done.out


def test_a_path_without_timers_keeps_min_idle(server: Server) -> None:
    done = check(server.url + CHAT, "--min-idle", "3s")
    assert done.code == 0, done.out + done.err
    assert "ok min-idle 3.00 s: kept" in done.out
