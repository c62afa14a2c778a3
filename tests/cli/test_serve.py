from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.cli.running import environment, promptpath


@pytest.mark.slow
def test_it_is_the_server_and_ctrl_c_ends_it_cleanly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "promptpath", "serve", "--announce", "--clear-text", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    assert said["event"] == "listening" and said["url"].startswith("http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, b"")


@pytest.mark.slow
def test_its_options_are_the_servers_own() -> None:
    done = promptpath("serve", "--no-such-option")
    assert done.code == 2 and "--no-such-option" in done.err
