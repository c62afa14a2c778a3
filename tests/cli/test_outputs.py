from __future__ import annotations

from pathlib import Path

import pytest

from promptpath.cli.outputs import Journal, Output, journal_for
from promptpath.cli.tap import Tap
from promptpath.errors import UsageError
from promptpath.model.codec import decode_document, decode_journal
from tests.analysis.build import PLAN, TraceBuilder
from tests.export.documents import document, extend, trip


def test_a_file_is_made_at_once_and_written_later(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    output = Output(str(file))
    assert file.read_bytes() == b""
    output.write(document([trip()]))
    assert decode_document(file.read_bytes()).plan == PLAN
    output.forget()
    assert file.exists()


def test_an_older_file_is_kept_until_there_is_something_to_write(tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text("before")
    output = Output(str(file))
    output.forget()
    assert file.read_text() == "before"
    output.write(document([trip()]))
    assert file.read_text().startswith("# POST")


def test_a_file_nobody_wrote_to_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    Output(str(file)).forget()
    assert not file.exists()


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    for name in (tmp_path, tmp_path / "missing" / "x.json"):
        with pytest.raises(UsageError):
            Output(f"{name}.d/x.json" if name == tmp_path else str(name))


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="File name too long"):
        Output(str(tmp_path / ("x" * 300 + ".json")))


def test_the_journal_holds_what_the_trace_holds(tmp_path: Path) -> None:
    builder = TraceBuilder()
    journal = journal_for([Output(str(tmp_path / "x.md")), Output(str(tmp_path / "x.json"))])
    assert journal is not None
    tap = Tap(PLAN, [journal])
    (observer,) = tap.begin(0, "cold", trip().clock)
    builder.log.observe(observer)
    trace = extend(builder)
    tap.flush()
    plan, read = decode_journal((tmp_path / "x.json.partial.ndjson").read_bytes())
    assert plan == PLAN
    assert list(read.events) == list(trace.events) and read.spans == trace.spans
    assert read.marks == trace.marks
    assert read.facts == trace.facts[1:]  # the builder's first fact came before we watched
    journal.discard()
    assert not (tmp_path / "x.json.partial.ndjson").exists()


def test_each_run_has_a_journal_of_its_own(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path / "x.json"))
    for index in range(2):
        journal.begin(index, "cold", b"head\n")
        journal.write([(["span-conn", 1, index], b"row\n")])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["x.json.partial.ndjson", "x.json.run2.partial.ndjson"]
    assert all(path.read_bytes() == b"head\nrow\n" for path in tmp_path.iterdir())
    journal.discard()
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_cannot_be_written_does_not_matter() -> None:
    journal = Journal("/nonexistent/x.json")
    journal.begin(0, "cold", b"head\n")
    journal.write([(["span-conn", 1, 1], b"row\n")])
    journal.discard()


def test_without_a_json_output_there_is_no_journal(tmp_path: Path) -> None:
    assert journal_for([Output(str(tmp_path / "x.md"))]) is None
