"""`promptpath explain FILE`: shows and judges again what was saved, offline.

A document (trace.json), a journal that a crash left behind, or the body of a stream.
"""

from __future__ import annotations

from promptpath.cli.judge import judged
from promptpath.cli.options import ExplainOptions
from promptpath.cli.outputs import Output
from promptpath.cli.read_input import MAX_SAVED_BYTES, read_input
from promptpath.cli.show import show, write_text
from promptpath.errors import ExitCode, UsageError
from promptpath.export import active_text
from promptpath.model.codec import JOURNAL_SCHEMA, decode_document, decode_journal
from promptpath.model.document import Document
from promptpath.model.enums import Severity

_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How an event stream begins (WHATWG HTML, 9.2.5)."""


def run(options: ExplainOptions) -> int:
    """Show it; 1 when an error finding fires (or a body ends badly), else 0."""
    raw = read_input(options.file, MAX_SAVED_BYTES, hint="check the path")
    if options.content_type is not None:
        from promptpath.cli.explain_body import explain_body

        return explain_body(raw, options)
    outputs = [Output(name, options.qlog_version) for name in options.output or []]
    document = load(raw, options.file)
    for output in outputs:
        output.write(document)
    text = None if options.json else active_text.render(document)
    if text is not None:
        write_text(text)
    else:
        show(document, as_json=options.json, no_color=options.no_color)
    fired = (finding for run in document.runs for finding in run.report.findings)
    failed = any(finding.severity is Severity.ERROR for finding in fired)
    return ExitCode.FINDING if failed else ExitCode.OK


def load(raw: bytes, name: str) -> Document:
    """The saved document or journal, judged by the rules of today. Raises UsageError."""
    start = raw[:200].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(_STREAM_STARTS):
        raise UsageError(
            f"{name!r} looks like the body of a stream",
            expected="a saved trace",
            hint=f"promptpath explain {name} --content-type text/event-stream",
        )
    if JOURNAL_SCHEMA.encode() in start:
        plan, trace = decode_journal(raw)
        return judged([trace], plan, {})
    saved = decode_document(raw)
    return judged([run.trace for run in saved.runs], saved.plan, saved.vantage)
