"""Buffering verdicts on recordings: one line each, then how many are right, where that is known.

    python -m benchmarks.signatures FILE.jsonl.gz [--stamps] [--window EVENTS]

Passive unless told: `--stamps` lets the verdict see when the sender sent each event. `--window`
cuts each healthy recording into short answers of so many events, and counts the false alarms among
those that were not held by their own stamps.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.recordings import Recording, read_recordings, window
from promptpath.analysis.buffering.hold import measure_hold, tolerated_ns
from promptpath.analysis.buffering.judge import judge
from promptpath.analysis.buffering.judgement import UNDECIDED, Judgement
from promptpath.analysis.stats import quantile
from promptpath.model.units import to_ms

HEALTHY = ("streaming", "server-batch")
SAME = {"tls-record-buffer": "size-buffer", "headers-held": "initial-hold"}
"""Answers that are a special case of a truth label."""


@dataclass(slots=True)
class Score:
    """Answers against truth."""

    matrix: Counter[tuple[str, str]] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)
    """Estimated hold by true hold, of impaired recordings that were flagged."""
    within: list[bool] = field(default_factory=list)
    """Whether the true hold lies within the estimate's error, of the same."""

    def add(self, recording: Recording, judgement: Judgement) -> None:
        """Count one recording; those without truth are left out."""
        if recording.truth is None:
            return
        answer = SAME.get(judgement.answer.value, judgement.answer.value)
        self.matrix[recording.truth, answer] += 1
        true_ms, hold = recording.truth_hold_p90_ms, judgement.hold
        if hold is not None and true_ms and recording.truth not in HEALTHY and _flagged(answer):
            self.ratios.append(to_ms(hold.p90_ns) / true_ms)
            self.within.append(abs(to_ms(hold.p90_ns) - true_ms) <= to_ms(hold.error_ns))

    def count(self, truths: Iterable[str], answers: Iterable[str]) -> int:
        """How many of these truths got one of these answers."""
        wanted = set(answers)
        return sum(n for (t, a), n in self.matrix.items() if t in truths and a in wanted)

    @property
    def truths(self) -> list[str]:
        """The labels that occur."""
        return sorted({truth for truth, _ in self.matrix})

    @property
    def answers(self) -> list[str]:
        """The answers that occur."""
        return sorted({answer for _, answer in self.matrix})


def _flagged(answer: str) -> bool:
    return answer not in HEALTHY and answer not in UNDECIDED


def line(recording: Recording, judgement: Judgement) -> str:
    """One recording's verdict."""
    estimate = [f"tolerated_ms={to_ms(judgement.tolerated_ns):g}"]
    if judgement.hold is not None:
        hold = judgement.hold
        estimate.append(f"hold_p90_ms={to_ms(hold.p90_ns):g}+-{to_ms(hold.error_ns):g}")
    if judgement.size_bytes is not None:
        estimate.append(f"bytes={judgement.size_bytes}")
    if judgement.period_ns is not None:
        estimate.append(f"period_ms={to_ms(judgement.period_ns):g}")
    if judgement.layer is not None:
        estimate.append(f"layer={judgement.layer}")
    cells = (recording.name, recording.scenario, judgement.answer.value, judgement.confidence)
    return "\t".join([*map(str, cells), " ".join(estimate)])


def report(score: Score) -> list[str]:
    """Confusion matrix, strict accuracy, false alarms, flagged and undecided."""
    answers = score.answers
    lines = ["", f"{'truth / verdict':<16}" + "".join(f"{a[:11]:>12}" for a in answers)]
    for truth in score.truths:
        counts = (score.matrix[truth, answer] for answer in answers)
        lines.append(f"{truth:<16}" + "".join(f"{n or '.':>12}" for n in counts))
    impaired = [truth for truth in score.truths if truth not in HEALTHY]
    flags = [answer for answer in answers if _flagged(answer)]
    undecided = [answer.value for answer in UNDECIDED]
    total = sum(score.matrix.values())
    right = sum(n for (truth, answer), n in score.matrix.items() if truth == answer)
    sick = score.count(impaired, answers)
    flagged = score.count(impaired, flags)
    named = flagged + score.count(impaired, undecided)
    lines += ["", f"strict class right  {_of(right, total)}"]
    lines.append(f"false alarms        {_of(score.count(HEALTHY, flags), total - sick)}")
    lines.append(f"impaired flagged    {_of(flagged, sick)}")
    lines.append(f"... or undecided    {_of(named, sick)}")
    streaming = score.count(("streaming",), answers)
    lines.append(f"streaming undecided {_of(score.count(('streaming',), undecided), streaming)}")
    if score.ratios:
        ordered = sorted(score.ratios)
        shares = (quantile(ordered, share) for share in (0.1, 0.5, 0.9))
        lines.append("estimated / true hold p90: " + ", ".join(f"{x:.2f}" for x in shares))
        lines[-1] += " (p10, p50, p90)"
        lines.append(f"true hold in error  {_of(sum(score.within), len(score.within))}")
    return lines


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({100 * part / whole:.1f} %)" if whole else "")


def _wanted(recordings: Iterable[Recording], events: int | None) -> Iterator[Recording]:
    """All; or, of the healthy ones, the pieces of so many events that nobody held."""
    for recording in recordings:
        if events is None:
            yield recording
            continue
        count = len(recording.evidence.events)
        starts = range(0, count - events, max(events, count // 6))
        for start in starts if recording.truth in HEALTHY else ():
            piece = window(recording, start, start + events)
            if measure_hold(piece.evidence).p90_ns <= tolerated_ns(piece.evidence):
                yield piece


def main(arguments: list[str]) -> int:
    """Judge every recording of a file; 1 when it cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.signatures", description=__doc__)
    parser.add_argument("file", type=Path, nargs="+")
    parser.add_argument("--stamps", action="store_true", help="let the verdict see the send times")
    parser.add_argument("--window", type=int, help="judge short pieces of healthy recordings")
    options = parser.parse_args(arguments)
    score = Score()
    try:
        for path in options.file:
            for recording in _wanted(read_recordings(path), options.window):
                judgement = judge(recording.evidence, use_stamps=options.stamps)
                print(line(recording, judgement))
                score.add(recording, judgement)
    except (OSError, ValueError, EOFError) as error:
        print(error, file=sys.stderr)
        return 1
    if score.matrix:
        print("\n".join(report(score)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
