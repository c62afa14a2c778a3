"""Input without an end is refused; what fits is read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from promptpath.cli.read_input import read_input
from promptpath.errors import UsageError


def test_a_file_of_exactly_the_bound_is_read(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"12345678")
    assert read_input(str(file), 8, hint="") == b"12345678"


def test_one_byte_more_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"123456789")
    with pytest.raises(UsageError, match="is too large"):
        read_input(str(file), 8, hint="")


def test_a_device_without_an_end_is_refused() -> None:
    with pytest.raises(UsageError, match="'/dev/zero' is too large"):
        read_input("/dev/zero", 1024 * 1024, hint="")


def test_a_file_that_is_not_there_is_named_with_the_hint() -> None:
    with pytest.raises(UsageError, match="cannot read '/nonexistent'") as caught:
        read_input("/nonexistent", 8, where="--data", hint="check the path")
    assert (caught.value.where, caught.value.hint) == ("--data", "check the path")


def test_standard_input_is_read_and_bounded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "piped"
    file.write_bytes(b"prompt")
    for limit, fits in ((6, True), (5, False)):
        with file.open() as piped:
            monkeypatch.setattr("sys.stdin", piped)
            if fits:
                assert read_input("-", limit, hint="") == b"prompt"
            else:
                with pytest.raises(UsageError, match="standard input is too large"):
                    read_input("-", limit, hint="")
