"""Token sizes from another process, and without one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from promptpath.dialect.tokens.sizes import token_sizes
from promptpath.probe.token_process import token_sizes_elsewhere

TEXTS = [b"Check the hold timer.", b"", "\u00e9t\u00e9".encode()]


def test_the_answer_is_that_of_this_process_and_the_vocabulary_stays_out_of_it() -> None:
    code = (
        "import sys\n"
        "from promptpath.probe.token_process import token_sizes_elsewhere\n"
        f"print(token_sizes_elsewhere({TEXTS!r}))\n"
        "assert 'tiktoken' not in sys.modules\n"
    )
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == repr(token_sizes(TEXTS))


@pytest.mark.parametrize("program", ["/nowhere/python", "/bin/false", "/bin/echo"])
def test_without_a_process_that_answers_it_is_done_here(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert token_sizes_elsewhere(TEXTS) == token_sizes(TEXTS)


def test_nothing_to_count_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    assert token_sizes_elsewhere([b"", b""]) == [b"", b""]
