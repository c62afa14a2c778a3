"""`promptpath trace [URL]`: the main job."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from promptpath.probe.kernel_support import start_keeper

start_keeper()  # before the slow imports: the kernel needs 2 ms to switch stamping on

from promptpath.cli.live_feed import LiveFeed, live_feed  # noqa: E402
from promptpath.cli.measure import Measured, measure  # noqa: E402
from promptpath.cli.options import TraceOptions  # noqa: E402
from promptpath.cli.outputs import Output, journal_for  # noqa: E402
from promptpath.cli.plan_builder import Prepared, prepare  # noqa: E402
from promptpath.cli.streams import say  # noqa: E402
from promptpath.cli.tap import Sink  # noqa: E402
from promptpath.errors import ExitCode, UsageError  # noqa: E402

PROMPT_PATHS = {None: "/v1/chat/completions", "anthropic": "/v1/messages"}
"""Where the bundled server takes a prompt, by --dialect; any other dialect goes to the first."""


def run(options: TraceOptions) -> int:
    """Trace, show, write; returns the exit code."""
    outputs = [Output(name, options.qlog_version) for name in options.output or []]
    try:
        with contextlib.ExitStack() as stack:
            if options.url is None and options.curl is None:
                from promptpath.cli.bundled import bundled_server

                server = stack.enter_context(bundled_server())
                if server.note is not None:
                    say(f"note: paced engine, no real model: {server.note}")
                options = replace(
                    options,
                    url=server.url + PROMPT_PATHS.get(options.dialect, PROMPT_PATHS[None]),
                    cacert=options.cacert or server.ca_file,
                    model=options.model or server.model,
                    proxy="none" if options.proxy == "env" else options.proxy,
                )
            prepared = prepare(options)
            for notice in prepared.notices:
                say(f"note: {notice}")
            return _trace(options, prepared, outputs)
    finally:
        for output in outputs:
            output.forget()


def _trace(options: TraceOptions, prepared: Prepared, outputs: list[Output]) -> int:
    journal = journal_for(outputs)
    with live_feed(options) as feed:
        sinks: list[Sink] = [sink for sink in (journal, feed) if sink is not None]
        measured = measure(prepared, sinks)
    _note_dropped(feed)
    if journal is not None:
        journal.close()
    code = _finish(options, prepared, measured, outputs)
    if journal is not None:
        journal.discard()
    return code


def _finish(
    options: TraceOptions, prepared: Prepared, measured: Measured, outputs: list[Output]
) -> int:
    """Judge, write the files, print the result."""
    # Only now: analysis and drawing must not make the start slow.
    from promptpath.cli.judge import document_of
    from promptpath.cli.show import show

    document = document_of(measured.traces, prepared.plan, interrupted=measured.interrupted)
    unwritten: list[UsageError] = []
    for output in outputs:
        try:
            output.write(document)
        except UsageError as error:  # the disk is full, say: the other places still get theirs
            unwritten.append(error)
    show(
        document,
        as_json=options.json,
        no_color=options.no_color,
        explain=options.explain,
    )
    if unwritten:
        for earlier in unwritten[:-1]:
            say(earlier.lines()[0])
        raise unwritten[-1]
    return ExitCode(document.summary.exit_code)


def _note_dropped(feed: LiveFeed | None) -> None:
    if feed is not None and feed.dropped:
        say(f"note: the live view missed {feed.dropped} rows; the result did not")
