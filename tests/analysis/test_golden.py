"""Every golden trace, judged anew, gives the report that is kept beside it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from promptpath.model.codec import json_schema
from tests.tools.golden import documents, expected_path, judged

PATHS = list(documents())


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_golden_trace_gives_its_report(path: Path) -> None:
    expected = expected_path(path)
    assert expected.exists(), "run: python -m tests.tools.golden, and read what it wrote"
    assert judged(path) == expected.read_text(), "if meant: python -m tests.tools.golden"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_golden_trace_obeys_the_schema(path: Path) -> None:
    jsonschema.validate(json.loads(path.read_bytes()), json_schema())


def test_there_are_golden_traces() -> None:
    assert len(PATHS) >= 8
