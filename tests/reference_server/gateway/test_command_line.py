"""Keys, limits and delays from the command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reference_server.options import parse_options
from reference_server.settings import DelaySettings
from tests.reference_server.harness import chat
from tests.reference_server.test_main import COMMAND, FAST, server

CHAT = "/v1/chat/completions"


def command(*options: str) -> subprocess.CompletedProcess[str]:
    """The server with these options, which end it at once."""
    return subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=20)


def test_a_key_made_on_the_command_line_opens_the_server_to_its_holder_only(
    tmp_path: Path,
) -> None:
    file = str(tmp_path / "keys")
    made = command("--keys", file, "--make-key", "alice", "--requests-per-minute", "1")
    key = made.stdout.strip()
    assert (made.returncode, made.stderr) == (0, "") and key.startswith("pp-")
    with server("--engine", "paced", "--clear-text", "--keys", file, *FAST) as running:
        with running.client() as client:
            head = {"authorization": f"Bearer {key}"}
            statuses = [client.post(CHAT, json=chat(), headers=head).status_code for _ in range(2)]
            assert [*statuses, client.post(CHAT, json=chat()).status_code] == [200, 429, 401]


def test_what_is_wrong_with_the_keys_is_said_without_them(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text('{"id": "a", "name": "n", "salt": "sekret"}\n')
    for options, code, says in (
        (("--make-key", "alice"), 2, "needs --keys"),
        (("--make-key", "a", "--keys", "/no/such/folder/keys"), 1, "cannot be written"),
        (("--keys", str(tmp_path / "none")), 1, "cannot be read"),
        (("--keys", str(broken)), 1, "line 1 of the key file"),
        (("--requests-per-minute", "0"), 2, "must be from 1"),
        (("--redis", "http://sekret@x"), 1, "redis://HOST"),
    ):
        done = command("--engine", "paced", *options)
        assert (done.returncode, done.stdout) == (code, ""), options
        assert says in done.stderr and "sekret" not in done.stderr, done.stderr


def test_delays_are_times_by_stage() -> None:
    given = "edge=1ms,gateway=2.5ms,queue=0.1s"
    delays = parse_options(["--delay", given]).settings.delays
    assert delays == DelaySettings(edge_ms=1, gateway_ms=2.5, queue_ms=100)


@pytest.mark.parametrize(
    "text", ["", "queue", "queue=5", "queue=-5ms", "decode=5ms", "queue=1ms,queue=2ms", "edge=2h"]
)
def test_a_delay_that_means_nothing_is_refused(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(["--delay", text])
    assert ended.value.code == 2 and "STAGE=TIME" in capsys.readouterr().err


def test_a_delay_of_hours_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options(["--delay", "queue=7200s"])
    assert "one hour" in capsys.readouterr().err
