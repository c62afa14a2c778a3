from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from promptpath.model.names import MARK_WINDOW_STALL
from tests.peers.scripted_h2 import AwaitRequest, Data, Headers, ScriptedH2Origin

ANSWER = (AwaitRequest(), Headers(200), Data(b"data: {}\n\ndata: [DONE]\n\n", end=True))


def stalls(prompt_bytes: int, tmp_path: Path) -> list[Any]:
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"model": "m", "messages": ["x" * prompt_bytes]}))
    with ScriptedH2Origin(ANSWER) as origin:
        url = origin.url("/v1/chat/completions")
        command = [sys.executable, "-m", "promptpath", "trace", url, "--http", "2", "--json"]
        done = subprocess.run(
            [*command, "--data", f"@{body}"], capture_output=True, timeout=60, check=False
        )
        assert len(origin.requests[0].body) == body.stat().st_size, done.stderr
    marks = json.loads(done.stdout)["runs"][0]["trace"]["marks"]
    return [mark["detail"] for mark in marks if mark["name"] == MARK_WINDOW_STALL]


@pytest.mark.slow
def test_an_upload_beyond_the_peer_s_window_is_marked_from_its_stall_to_its_end(
    tmp_path: Path,
) -> None:
    details = stalls(300_000, tmp_path)  # both of the peer's windows hold 65,535 bytes
    assert details[0] == {"state": "begin", "scope": "connection"}
    states = [detail["state"] for detail in details]
    assert states == ["begin", "end"] * (len(states) // 2)


@pytest.mark.slow
def test_an_upload_within_the_peer_s_window_has_no_stall(tmp_path: Path) -> None:
    assert stalls(1000, tmp_path) == []
