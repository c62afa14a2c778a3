"""The file-size gate."""

from __future__ import annotations

from pathlib import Path

from tests.tools.file_size import LIMIT_LINES, main


def test_file_over_the_limit_fails(tmp_path: Path) -> None:
    (tmp_path / "promptpath").mkdir()
    (tmp_path / "promptpath" / "long.py").write_text("x = 1\n" * (LIMIT_LINES + 1))
    assert main(tmp_path) == 1


def test_file_at_the_limit_passes(tmp_path: Path) -> None:
    (tmp_path / "promptpath").mkdir()
    (tmp_path / "promptpath" / "long.py").write_text("x = 1\n" * LIMIT_LINES)
    assert main(tmp_path) == 0
