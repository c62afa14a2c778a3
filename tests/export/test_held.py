"""What happened to the stream on its way, in one line of the terminal and of the ticket."""

from __future__ import annotations

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.summary import summarize
from promptpath.export import digest, markdown
from promptpath.export.terminal.sections import cadence_lines
from promptpath.model.document import Document, Run, Tool
from promptpath.model.report import Report
from tests.analysis.buffering import flow as f
from tests.analysis.build import PLAN, TraceBuilder, healthy

SENT = f.varied(300, gap_ms=10, size=97)


def report(trip: TraceBuilder) -> Report:
    return diagnose(trip.build(), PLAN)


def test_a_buffer_is_named_with_size_hold_and_error() -> None:
    line = digest.buffering(report(f.trip_of(f.held_until(4096, SENT), stamps=True)))
    assert line is not None
    assert line.startswith("size-buffer, 4096 bytes: a tenth held ")
    assert "sender's stamps" in line


def test_an_estimate_says_that_it_is_one() -> None:
    line = digest.buffering(report(f.trip_of(f.timed(93, f.steady(300, gap_ms=10, size=97)))))
    assert line is not None
    assert line.startswith("timer, every 93.0 ms")
    assert "(estimate, +-" in line


def test_too_few_events_say_what_is_missing() -> None:
    line = digest.buffering(report(f.trip_of(f.one_by_one(SENT[:4]))))
    assert line == "inconclusive: 4 events with content, 8 are needed"


def test_where_there_was_no_stream_there_is_no_line() -> None:
    assert digest.buffering(report(TraceBuilder().dns(2))) is None


def test_the_line_is_in_the_terminal_and_in_the_ticket() -> None:
    trip = healthy().build()
    judged = diagnose(trip, PLAN)
    shown = " ".join(line.plain for line in cadence_lines(judged, 80))
    assert "the way  streaming: a tenth held" in " ".join(shown.split("\n"))
    runs = (Run(trace=trip, report=judged),)
    tool = Tool(name="promptpath", version="0")
    document = Document(tool=tool, plan=PLAN, vantage={}, summary=summarize(runs), runs=runs)
    assert "On its way: streaming" in b"".join(markdown.write(document)).decode()
