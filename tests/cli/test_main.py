from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from promptpath import __version__
from promptpath.cli import main
from promptpath.errors import ExitCode, UsageError
from tests.cli.running import environment, promptpath

HEAVY = (
    "rich",
    "cryptography",
    "tiktoken",
    "httpx",
    "aioquic",
    "h2",
    "h11",
    "asyncio",
    "ssl",
    "dns",
)
"""What `--help` must not wait for."""
HEAVY_BEFORE_T0 = ("rich", "cryptography", "tiktoken", "httpx", "aioquic", "dns.resolver", "idna")
"""What the measuring process must not have imported when a trace begins."""


def imported_by(statement: str, modules: tuple[str, ...]) -> list[str]:
    """Which of the modules a fresh interpreter has loaded after the statement."""
    code = f"import sys\n{statement}\nprint(*(m for m in {modules!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def test_help_imports_nothing_heavy() -> None:
    run_help = "import promptpath.cli.main as m, io; sys.stdout = io.StringIO(); m.run(['--help'])"
    assert imported_by(f"{run_help}; sys.stdout = sys.__stdout__", HEAVY) == []


def test_nothing_needless_is_imported_before_t0() -> None:
    assert imported_by("import promptpath.cli.trace", HEAVY_BEFORE_T0) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--help"], "trace"),
        (["--version"], f"promptpath {__version__}\n"),
        (["trace", "--help"], "--first-token-timeout"),
    ],
)
def test_help_and_version_go_to_standard_output(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(arguments) == 0
    out, err = capsys.readouterr()
    assert said in out and err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trace", "--bogus"], "error: no such option: --bogus\nhint: promptpath trace --help\n"),
        (["bogus"], "error: no such command 'bogus'"),
        (["trace", "a", "b"], "error: got unexpected extra argument"),
        (["trace", "--repeat", "0", "https://h"], "--repeat"),
        (["trace", "--repeat", "x", "https://h"], "--repeat"),
        (["trace", "example.com"], "hint: did you mean https://example.com"),
        (["trace", "ftp://h/"], "error: unknown scheme 'ftp'"),
        (["trace", "https://h:0/"], "error: port 0"),
        (["trace", "https://h/", "-o", "x.txt"], ".json, .md"),
        (["trace", "https://h/", "-o", "/nonexistent/x.json"], "cannot write"),
        (["trace", "http://h/", "--http", "3"], "HTTP/3 needs an https URL"),
        (["trace", "https://api.openai.com/v1/chat/completions"], "OPENAI_API_KEY is not set"),
        (["trace", "https://h/v1/messages", "--key-env", "NO_SUCH"], "NO_SUCH is not set"),
        (["trace", "--curl", "curl h -F x=y"], "curl's -F is not supported"),
        (["explain", "/nonexistent"], "cannot read"),
        (["rule", "PP000"], "no rule is called 'PP000'"),
    ],
)
def test_wrong_usage_is_exit_code_2_with_a_message(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main.run(arguments) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == "" and said in err and "Traceback" not in err
    assert err.splitlines()[-1].startswith("hint: ")


def test_wrong_usage_of_the_program_itself_is_exit_code_2() -> None:
    done = promptpath("trace", "ftp://h/", "--debug")
    assert (done.code, done.out) == (ExitCode.USAGE, "")
    assert "Traceback" in done.err  # --debug asked for it


def test_a_file_made_for_a_run_that_did_not_begin_is_gone_again(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    assert main.run(["trace", "https://h:0/", "-o", str(file)]) == ExitCode.USAGE
    assert not file.exists()


def test_a_closed_pipe_ends_quietly() -> None:
    program = [sys.executable, "-m", "promptpath", "tokens", "-"]
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(b"many words " * 5000)
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_bug_is_said_to_be_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(main, "app", broken)
    assert main.run(["rule"]) == ExitCode.BUG
    said = capsys.readouterr().err
    assert said.startswith(f"error: this is a bug of promptpath {__version__}: ZeroDivisionError\n")
    assert "--debug" in said and "secret detail" not in said


@pytest.mark.parametrize(
    ("raised", "code"),
    [(UsageError("no"), 2), (KeyboardInterrupt(), 130), (BrokenPipeError(), 0)],
)
def test_every_end_has_its_code(
    raised: BaseException,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ends(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(main, "app", ends)
    monkeypatch.setattr(main, "_stdout_gone", lambda: 0)
    assert main.run(["trace"]) == code
