"""A document of an active test as plain text, whichever test it was."""

from __future__ import annotations

from promptpath.analysis.calibration import streams_of
from promptpath.analysis.calibration_pass import judge_calibration
from promptpath.analysis.idle import fates_of
from promptpath.analysis.idle_pass import judge_pass
from promptpath.export import calibration_text, idle_text
from promptpath.model.document import Document


def render(document: Document) -> str | None:
    """The test's own view; None for a document of another command."""
    traces = [run.trace for run in document.runs]
    fates = fates_of(traces)
    if fates:
        return idle_text.render(fates, judge_pass(fates))
    found = judge_calibration(streams_of(traces))
    return None if found is None else calibration_text.render(found)
