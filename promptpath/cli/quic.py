"""`promptpath quic HOST`: the QUIC handshake alone, once or several times."""

from __future__ import annotations

from promptpath.probe.kernel_support import start_keeper

start_keeper()  # before the slow imports: the kernel needs 2 ms to switch stamping on

import asyncio  # noqa: E402
from dataclasses import fields, replace  # noqa: E402

from promptpath.cli.measure import stop_on_signals  # noqa: E402
from promptpath.cli.options import QuicOptions, ReachOptions, TraceOptions  # noqa: E402
from promptpath.cli.plan_builder import prepare  # noqa: E402
from promptpath.errors import UsageError  # noqa: E402
from promptpath.model.plan import Plan  # noqa: E402
from promptpath.model.redact import plan_record  # noqa: E402
from promptpath.model.trace import Trace  # noqa: E402
from promptpath.probe.clock import RunClock  # noqa: E402
from promptpath.probe.quic_survey import survey  # noqa: E402


def run(options: QuicOptions) -> int:
    """Measure, show; returns the exit code."""
    plan = _plan(options)
    traces, interrupted = asyncio.run(_measure(plan))
    # Only now: analysis and drawing must not make the start slow.
    from promptpath.analysis.quic_report import report_of
    from promptpath.cli.show import write_bytes, write_text
    from promptpath.export import quic_text
    from promptpath.model.codec import encode

    report = report_of(traces, plan_record(plan), interrupted=interrupted)
    if options.json:
        write_bytes([encode(report), b"\n"])
    else:
        write_text(quic_text.render(report))
    return report.exit_code


def url_of(text: str) -> str:
    """HOST, HOST:PORT, [V6]:PORT or an https URL as an https URL. Raises UsageError."""
    if "://" in text:
        if not text.startswith("https://"):
            raise UsageError(
                f"not an https URL: {text}", expected="HOST, HOST:PORT or https://HOST"
            )
        return text
    if text.count(":") > 1 and not text.startswith("["):
        return f"https://[{text}]/"
    return f"https://{text}/"


def _plan(options: QuicOptions) -> Plan:
    reach = {item.name: getattr(options, item.name) for item in fields(ReachOptions)}
    url = url_of(options.host)
    prepared = prepare(
        TraceOptions(url=url, http="3", proxy="none", repeat=options.repeat, **reach)
    )
    return replace(prepared.plan, method="GET", body=None, early_data=False)


async def _measure(plan: Plan) -> tuple[list[Trace], bool]:
    stop = asyncio.Event()
    traces: list[Trace] = []
    with stop_on_signals(stop):
        async for trace in survey(plan, stop=stop, clock=RunClock.start()):
            traces.append(trace)
    return traces, stop.is_set()
