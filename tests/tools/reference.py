"""Writes the generated pages: docs/findings from the rule table, docs/reference from the model.

python -m tests.tools.reference        write them
(tests/tools/test_reference.py fails when they are not current)
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from promptpath.analysis.rules import RULES
from promptpath.analysis.rules.base import Rule
from promptpath.model import enums, matrix, names, quic_report
from promptpath.model.codec import json_schema

ROOT = Path(__file__).resolve().parents[2]
FINDINGS = ROOT / "docs" / "findings"
REFERENCE = ROOT / "docs" / "reference"
FAMILIES = {
    "PP1": "Name resolution",
    "PP2": "Transport",
    "PP3": "TLS",
    "PP4": "Intermediaries",
    "PP5": "Gateway, protocol and stream",
    "PP6": "The server",
    "PP9": "The measurement itself",
}
CLOSED = (
    "Stage",
    "Outcome",
    "Layer",
    "Clock",
    "EventKind",
    "FactSource",
    "Severity",
    "EndState",
)
SEVERITIES = {
    "error": "error (exit code 1, or 3 where nothing could be measured)",
    "warning": "warning",
    "info": "info",
}


def generated() -> dict[Path, str]:
    """Every generated page with its text."""
    pages = {FINDINGS / f"{rule.code}.md": finding_page(rule) for rule in RULES}
    pages[FINDINGS / "README.md"] = findings_index()
    pages[REFERENCE / "report.schema.json"] = json.dumps(json_schema(), indent=1) + "\n"
    pages[REFERENCE / "quic.schema.json"] = json.dumps(quic_report.json_schema(), indent=1) + "\n"
    pages[REFERENCE / "matrix.schema.json"] = json.dumps(matrix.json_schema(), indent=1) + "\n"
    pages[REFERENCE / "trace.md"] = trace_page()
    return pages


def finding_page(rule: Rule) -> str:
    """One code."""
    return f"""# {rule.code}: {rule.title}

Severity: {SEVERITIES[rule.severity.value]}

**What it asks.** {rule.asks}

**How it is decided.** {rule.decided}

**What to do.** {rule.advice}

**What it is not.** {rule.is_not}
"""


def findings_index() -> str:
    """All codes by family."""
    lines = [
        "# Findings",
        "",
        "Each finding of a report has a code; `promptpath rule CODE` prints its page.",
        "Only findings of severity error change the exit code.",
    ]
    for prefix, family in FAMILIES.items():
        lines += ["", f"## {prefix}xx: {family}", ""]
        lines += ["| code | severity | finding |", "|---|---|---|"]
        lines += [
            f"| [{rule.code}]({rule.code}.md) | {rule.severity.value} | {rule.title} |"
            for rule in RULES
            if rule.code.startswith(prefix)
        ]
    return "\n".join(lines) + "\n"


def trace_page() -> str:
    """Spans, marks and facts, from model/names.py, and the closed words of model/enums.py."""
    lines = [
        "# The trace",
        "",
        "What a trace holds: spans, marks, arrivals, events and facts. Times are integer",
        "nanoseconds since the run began; `server_ns` is the sender's own clock. Missing is null.",
        "The shape of each row is in [report.schema.json](report.schema.json).",
        "This page is generated from `promptpath/model/names.py` and `promptpath/model/enums.py`.",
    ]
    for section, entries in _sections(Path(names.__file__)):
        lines += ["", f"## {section}", ""]
        lines += [f"- `{value}`{': ' + text if text else ''}" for value, text in entries]
    lines += ["", "## Closed words", ""]
    for name in CLOSED:
        words = ", ".join(f"`{member.value}`" for member in getattr(enums, name))
        lines.append(f"- {name}: {words}")
    return "\n".join(lines) + "\n"


def _sections(path: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The constants of a module under its section comments: value and docstring."""
    source = path.read_text("utf-8")
    titles = {
        number: line.strip("# -").strip()
        for number, line in enumerate(source.splitlines(), 1)
        if line.startswith("# ---")
    }
    section, entries = "", list[tuple[str, str]]()
    body = ast.parse(source).body
    for index, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.value, ast.Constant):
            continue
        above = [title for number, title in titles.items() if number < node.lineno]
        if above and above[-1] != section:
            if entries:
                yield section, entries
            section, entries = above[-1], []
        following = body[index + 1] if index + 1 < len(body) else None
        entries.append((str(node.value.value), _docstring(following)))
    if entries:
        yield section, entries


def _docstring(node: ast.stmt | None) -> str:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return ""
    return " ".join(str(node.value.value).split())


def stale() -> list[Path]:
    """Pages that are missing, differ, or belong to no rule any more."""
    pages = generated()
    wrong = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    return wrong + [path for path in FINDINGS.glob("PP*.md") if path not in pages]


def main() -> None:
    """Write all pages; remove those of codes that are gone."""
    for path in stale():
        text = generated().get(path)
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        sys.stderr.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
