"""Verdicts that need all runs of a document: the streams of an active test say more together than
one by one."""

from __future__ import annotations

from dataclasses import replace

from promptpath.analysis.calibration import streams_of
from promptpath.analysis.calibration_pass import PLAIN, calibration_verdict, judge_calibration
from promptpath.analysis.idle import fates_of
from promptpath.analysis.idle_pass import judge_pass, pass_verdict, stream_verdict
from promptpath.errors import ExitCode
from promptpath.model.document import Run
from promptpath.model.report import Verdict


def with_active_verdicts(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs, those of an active test with its verdicts; others as they are."""
    return _with_calibration(_with_idle(runs))


def _with_calibration(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The verdict of the calibration stands with its plain variant (or the first stream)."""
    streams = streams_of([run.trace for run in runs])
    found = judge_calibration(streams)
    if found is None:
        return runs
    holder = next((row.run for row in found.rows if row.name == PLAIN), streams[0].run)
    verdict = calibration_verdict(found)
    return tuple(_added(run, [verdict] if i == holder else []) for i, run in enumerate(runs))


def _with_idle(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Each stream's fate stands with it, the verdict of the pass with the silent mid-stream one (or
    the first there is)."""
    fates = fates_of([run.trace for run in runs])
    found = judge_pass(fates)
    if found is None:
        return runs
    middle = (fate.run for fate in fates if (fate.at, fate.keepalive) == ("stream", "none"))
    holder = next(middle, fates[0].run)
    verdicts: dict[int, list[Verdict]] = {fate.run: [stream_verdict(fate)] for fate in fates}
    verdicts[holder].append(pass_verdict(found))
    measured = {fate.run for fate in fates if fate.ended}
    return tuple(
        _added(_without_head(run) if index in measured else run, verdicts.get(index, []))
        for index, run in enumerate(runs)
    )


def _without_head(run: Run) -> Run:
    """A stream that somebody ended before its head was measured all the same."""
    if run.report.exit_code != ExitCode.UNMEASURED:
        return run
    return replace(run, report=replace(run.report, exit_code=int(ExitCode.FINDING)))


def _added(run: Run, verdicts: list[Verdict]) -> Run:
    if not verdicts:
        return run
    report = replace(run.report, verdicts=(*run.report.verdicts, *verdicts))
    return replace(run, report=report)
