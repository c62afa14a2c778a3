"""Why a run could not go on, asked by stage and code."""

from __future__ import annotations

from promptpath.analysis.rules.base import NO, Because, because
from promptpath.analysis.view import Measured
from promptpath.model.enums import Stage
from promptpath.model.names import FAILURE


def failed(measured: Measured, stage: Stage, *codes: str, but: tuple[str, ...] = ()) -> Because:
    """The stage failed, with one of these codes (any, without codes) and none of `but`."""
    code = measured.failure_code
    if measured.failure_stage != stage.value or code in but or (codes and code not in codes):
        return NO
    record = measured.facts.record(FAILURE)
    where = f" ({record.get('where')})" if record.get("where") else ""
    return because(f"{record.get('what')}{where}", facts=(FAILURE,))
