"""Golden traces: fixtures/traces/NAME.json is a document, NAME.report.json what must be made of it.

    python -m tests.tools.golden           judge every document anew, write what it must give
    python -m tests.tools.golden --trips   write the hand-made documents first

Any saved trace (`promptpath trace URL -o fixtures/traces/NAME.json`) can be added; its expected
report is then written here and read by a person before it is committed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.sentence import sentence
from promptpath.analysis.summary import summarize
from promptpath.model.codec import decode_document, encode, encode_document
from promptpath.model.document import Document, Run, Tool
from tests.analysis.build import PLAN, TraceBuilder
from tests.analysis.trips import TRIPS

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "traces"


def documents() -> Iterator[Path]:
    """The golden documents."""
    return (path for path in sorted(FOLDER.glob("*.json")) if ".report" not in path.name)


def expected_path(path: Path) -> Path:
    """Where a document's expected judgement is."""
    return path.with_suffix(".report.json")


def judged(path: Path) -> str:
    """A document's judgement as the expected file holds it: readable, stable."""
    document = decode_document(path.read_bytes())
    reports = [diagnose(run.trace, document.plan) for run in document.runs]
    runs = tuple(
        Run(trace=run.trace, report=report)
        for run, report in zip(document.runs, reports, strict=True)
    )
    found = {
        "sentences": [sentence(report) for report in reports],
        "summary": json.loads(encode(summarize(runs))),
        "reports": [json.loads(encode(report)) for report in reports],
    }
    return json.dumps(found, indent=1) + "\n"


def document_of(trips: list[TraceBuilder]) -> Document:
    """Hand-made trips as one document."""
    traces = [trip.build() for trip in trips]
    runs = tuple(Run(trace=trace, report=diagnose(trace, PLAN)) for trace in traces)
    tool = Tool(name="promptpath", version="0.1.0")
    return Document(tool=tool, plan=PLAN, vantage={}, summary=summarize(runs), runs=runs)


def main() -> None:
    """Write."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if "--trips" in sys.argv[1:]:
        for name, trips in TRIPS.items():
            raw = b"".join(encode_document(document_of(trips())))
            (FOLDER / f"{name}.json").write_bytes(raw)
    for path in documents():
        expected_path(path).write_text(judged(path))
        sys.stderr.write(f"{path.name}\n")


if __name__ == "__main__":
    main()
