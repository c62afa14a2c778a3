from __future__ import annotations

import pytest

from promptpath.errors import UsageError
from promptpath.export import jsonfile, markdown
from promptpath.export.formats import exporter_for


def test_the_suffix_chooses_the_exporter() -> None:
    assert exporter_for("a/b.json") is jsonfile.write
    assert exporter_for("REPORT.MD") is markdown.write


@pytest.mark.parametrize("name", ["trace", "trace.txt", "json", ".md/x"])
def test_an_unknown_suffix_names_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError) as raised:
        exporter_for(name)
    assert ".json, .md" in (raised.value.expected or "")


def test_a_dash_points_to_json() -> None:
    with pytest.raises(UsageError) as raised:
        exporter_for("-")
    assert "--json" in (raised.value.hint or "")
