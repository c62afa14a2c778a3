from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from promptpath.cli.bundled import bundled_server
from promptpath.errors import InternalError, UsageError
from tests.cli.running import environment


def accepts(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 0), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_it_lives_as_long_as_it_is_needed() -> None:
    with bundled_server() as server:
        assert server.url.startswith("https://127.0.0.1:")
        assert server.ca_file is not None and Path(server.ca_file).exists()
        assert server.model and accepts(server.url)
    assert not accepts(server.url)
    assert not Path(server.ca_file).exists()


@pytest.mark.slow
def test_it_does_not_outlive_us() -> None:
    code = (
        "import os, time\n"
        "from promptpath.cli.bundled import bundled_server\n"
        "with bundled_server() as server:\n"
        "    print(server.url, flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert accepts(url)
    process.kill()
    process.wait()
    process.stdout.close()
    end = time.monotonic() + 20
    while accepts(url):
        assert time.monotonic() < end, "the server lives on"
        time.sleep(0.02)


def test_one_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "executable", "/bin/false" if os.path.exists("/bin/false") else "false"
    )
    with pytest.raises(InternalError) as raised, bundled_server():
        pass
    assert "did not start" in raised.value.what and raised.value.hint


def test_what_the_server_itself_refuses_is_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPTPATH_ENGINE", "pacd")
    with pytest.raises(UsageError) as raised, bundled_server():
        pass
    assert "PROMPTPATH_ENGINE: one of auto, paced" in (raised.value.where or "")
