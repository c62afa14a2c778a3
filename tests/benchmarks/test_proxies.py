"""The lab's bookkeeping: what counts as a wrong verdict, the file, the tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.proxies import table as tables
from benchmarks.proxies.__main__ import surprises
from benchmarks.proxies.cell import Cell, from_json
from benchmarks.proxies.configurations import PRODUCTS

HELD = Cell(
    product="nginx",
    version="1.2.3",
    configuration="as it comes",
    setting="",
    protocol="HTTP/1.1",
    held_p90_ms=300.4,
    tolerated_ms=20.0,
    stamped="size-buffer 4096 B",
    passive="size-buffer 4096 B",
    active="size-buffer 4096 B",
    cured_by=("X-Accel-Buffering: no",),
)


@pytest.mark.parametrize(
    ("held_ms", "passive", "wrong"),
    [
        (300.0, "size-buffer 4096 B", ()),
        (300.0, "streaming", ("passive",)),
        (300.0, "paced-batch 200 ms", ()),
        (0.3, "streaming", ()),
        (0.3, "server-batch", ()),
        (0.3, "timer 250 ms", ("passive",)),
        (0.3, "inconclusive", ()),
    ],
)
def test_a_verdict_is_wrong_when_it_says_the_reverse(
    held_ms: float, passive: str, wrong: tuple[str, ...]
) -> None:
    stamped = "timer" if held_ms > 20 else "streaming"
    cell = replace(HELD, held_p90_ms=held_ms, stamped=stamped, passive=passive)
    assert cell.disagreements == wrong


def test_a_cell_is_read_as_it_was_written() -> None:
    assert from_json(HELD.as_json()) == HELD


def test_what_does_otherwise_than_known_is_named() -> None:
    streams = replace(HELD, held_p90_ms=0.2, configuration="buffering off")
    assert surprises([HELD, streams]) == []
    assert surprises([replace(streams, held_p90_ms=300.0)]) == ["nginx, buffering off"]
    over_tls = replace(HELD, protocol="HTTP/2, TLS", held_p90_ms=0.2)
    assert surprises([over_tls]) == ["nginx, as it comes"]
    assert surprises([over_tls, HELD]) == []


def test_a_row_marks_holds_and_wrong_verdicts() -> None:
    row = tables.table([replace(HELD, passive="streaming", active=None)]).splitlines()[-1]
    assert row == (
        "| [nginx](nginx.md) 1.2.3 | as it comes | HTTP/1.1 | **300 ms** | size-buffer 4096 B "
        "| streaming (!) |  |"
    )


def test_tables_are_put_between_the_marks_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "DOCS", tmp_path)
    for name in ("README.md", "nginx.md"):
        (tmp_path / name).write_text(f"before\n\n{tables.BEGIN}\nold\n{tables.END}\n\nafter\n")
    tables.write_docs([HELD])
    text = (tmp_path / "nginx.md").read_text()
    assert text.startswith("before\n\n") and text.endswith("\n\nafter\n")
    assert "old" not in text and "**300 ms**" in text
    (tmp_path / "nginx.md").write_text("no marks")
    with pytest.raises(ValueError, match="no place for a table"):
        tables.write_docs([HELD])


def test_every_product_has_its_page_with_a_place_for_its_table() -> None:
    assert set(tables.PAGES) == set(PRODUCTS)
    for page in ("README", *tables.PAGES.values()):
        text = (tables.DOCS / f"{page}.md").read_text()
        assert tables.BEGIN in text and tables.END in text, page
