from __future__ import annotations

import io
import json
import sys

import pytest

from promptpath.cli.main import run

TABLE = """\
token      |    id
"Why"      | 13903
" does"    |  2226
" my"      |   922
" B"       |   418
"GP"       | 29864
" session" |  6223
" keep"    |  3357
" fl"      |  1548
"apping"   |  5041
"?"        |    30
10 tokens (o200k_base)
"""
PROMPT = "Why does my BGP session keep flapping?"


def test_the_table_is_token_and_id(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tokens", PROMPT]) == 0
    assert capfd.readouterr().out == TABLE


def test_json_has_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tokens", "--json", PROMPT]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["count"] == 10 and said["vocabulary"] == "o200k_base"
    assert said["tokens"][1] == {"id": 2226, "text": " does"}


def test_standard_input_is_read_and_control_bytes_are_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x1b[31m\xff")))
    assert run(["tokens", "-"]) == 0
    out = capfd.readouterr().out
    assert "\x1b" not in out and "\\x1b" in out


def test_no_text_is_no_tokens(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tokens", ""]) == 0
    assert capfd.readouterr().out.endswith("0 tokens (o200k_base)\n")
    assert run(["tokens", "a"]) == 0
    assert capfd.readouterr().out.endswith("1 token (o200k_base)\n")
