"""Traces -> the document: each judged, all summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from promptpath import __version__
from promptpath.analysis.active import with_active_verdicts
from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.summary import summarize
from promptpath.errors import ExitCode
from promptpath.model.document import Document, Run, Tool
from promptpath.model.names import VANTAGE
from promptpath.model.plan import Plan, PlanRecord
from promptpath.model.redact import plan_record
from promptpath.model.rows import Json
from promptpath.model.trace import Trace


def document_of(traces: Sequence[Trace], plan: Plan, *, interrupted: bool = False) -> Document:
    """The document of a command that has just measured."""
    return judged(traces, plan_record(plan), _vantage(traces), interrupted=interrupted)


def judged(
    traces: Sequence[Trace],
    plan: PlanRecord,
    vantage: dict[str, Json],
    *,
    interrupted: bool = False,
) -> Document:
    """The document of these traces; `interrupted` runs decide its exit code."""
    runs = tuple(Run(trace=trace, report=diagnose(trace, plan)) for trace in traces)
    together = with_active_verdicts(runs)
    summary = summarize(together)
    if together is not runs:
        # Streams that differ on purpose have no median.
        summary = replace(summary, metrics={})
    if interrupted:
        summary = replace(summary, exit_code=int(ExitCode.INTERRUPTED))
    return Document(
        tool=Tool(name="promptpath", version=__version__),
        plan=plan,
        vantage=vantage,
        summary=summary,
        runs=together,
    )


def _vantage(traces: Sequence[Trace]) -> dict[str, Json]:
    """The measuring machine, as the first trace has it, else as it is."""
    value = traces[0].fact(VANTAGE)
    return value if isinstance(value, dict) else this_machine()


def this_machine() -> dict[str, Json]:
    """Where this process runs."""
    import platform
    import ssl

    return {
        "platform": platform.system(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
    }
