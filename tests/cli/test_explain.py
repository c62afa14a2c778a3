from __future__ import annotations

import copy
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptpath.cli.main import run
from promptpath.cli.outputs import Journal
from promptpath.cli.tap import Tap
from promptpath.export import jsonfile
from promptpath.export.terminal import render
from promptpath.model.enums import Stage
from promptpath.model.names import HTTP_STATUS
from tests.analysis.build import PLAN, TraceBuilder
from tests.export.documents import document, extend, trip

STREAM = (
    b'data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":"Hi"}}]}\n\n'
    b'data: {"object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},'
    b'"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    file = tmp_path / "trace.json"
    file.write_bytes(b"".join(jsonfile.write(document([trip()]))))
    return file


def test_a_saved_trace_shows_as_it_did(saved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(saved)]) == 0
    assert capfd.readouterr().out == render(document([trip()]))


def test_it_is_judged_anew(saved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = json.loads(saved.read_text())
    text["runs"][0]["report"]["findings"] = []
    text["runs"][0]["report"]["hops"] = []
    saved.write_text(json.dumps(text))
    assert run(["explain", str(saved), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["runs"][0]["report"]["hops"]


def test_an_error_finding_is_exit_code_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trace = TraceBuilder().dns(5).fails(Stage.TCP, "refused", "refused").build()
    file = tmp_path / "failed.json"
    file.write_bytes(b"".join(jsonfile.write(document([trace]))))
    assert run(["explain", str(file)]) == 1


def test_other_formats_are_written_too(saved: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = saved.with_suffix(".md")
    assert run(["explain", str(saved), "-o", str(report)]) == 0
    assert report.read_text().startswith("# POST ")


def test_standard_input_is_read(
    saved: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(saved.read_bytes())))
    assert run(["explain", "-"]) == 0


def test_a_journal_that_a_crash_left_is_read(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = tmp_path / "x.json"
    written = Journal(str(name))
    tap = Tap(PLAN, [written])
    (observer,) = tap.begin(0, "cold", trip().clock)
    builder = TraceBuilder().fact(HTTP_STATUS, 200)
    builder.log.observe(observer)
    extend(builder)
    tap.flush()
    written.close()
    journal = Path(f"{name}.partial.ndjson")
    journal.write_bytes(journal.read_bytes()[:-7])  # the last line is torn
    assert run(["explain", str(journal)]) in (0, 1)
    assert "wait for the first token" in capfd.readouterr().out


def test_a_stream_body_is_recognised_and_the_option_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "body"
    file.write_bytes(STREAM)
    assert run(["explain", str(file)]) == 2
    assert "--content-type text/event-stream" in capfd.readouterr().err


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff\xfe", b'{"schema":1}', b"x\n" * 9])
def test_anything_else_is_refused(
    content: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x"
    file.write_bytes(content)
    assert run(["explain", str(file)]) == 2
    assert "not a saved trace" in capfd.readouterr().err


DOCUMENT = json.loads(b"".join(jsonfile.write(document([trip()]))))
"""What the next test breaks, one value at a time."""


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in the document but those deep in long lists."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value[:2]))
    return [at, *(place for key, inner in items for place in _places(inner, (*at, key)))]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.sampled_from(_places(DOCUMENT)[1:]),
    value=st.sampled_from([10**30, -1, -(10**18), None, "\x1b[2J", [], {}, 1.5, True]),
)
def test_a_document_that_somebody_broke_is_refused_or_shown_never_a_bug(
    place: tuple[Any, ...],
    value: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    broken = copy.deepcopy(DOCUMENT)
    inner = broken
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(broken))
    assert run(["explain", str(file), "-o", str(tmp_path / "x.md")]) in (0, 1, 2)
    out, err = capfd.readouterr()
    assert "\x1b" not in out and "\x1b" not in err
