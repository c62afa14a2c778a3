"""Which engine runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference_server import engine_choice
from reference_server.engine_choice import Choice, ChoiceError, choose
from reference_server.weights import SMOLLM2, models_folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and a torch that is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(engine_choice, "find_spec", lambda name: object())


def pulled() -> str:
    """A file of the right size where the default model is kept."""
    models_folder().mkdir(parents=True)
    path = models_folder() / SMOLLM2.file
    with path.open("wb") as file:
        file.truncate(SMOLLM2.file_bytes)
    return str(path)


def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if torch were not installed."""
    monkeypatch.setattr(engine_choice, "find_spec", lambda name: None)


def test_auto_takes_the_default_model_when_it_is_there() -> None:
    path = pulled()
    assert choose("auto", None) == choose("auto", "smollm2") == Choice(path)


def test_auto_is_paced_without_the_model_and_says_how_to_get_it() -> None:
    assert choose("auto", None) == Choice(
        None, "the default model is not here: promptpath model pull"
    )


def test_auto_is_paced_without_torch_and_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pulled()
    without_torch(monkeypatch)
    choice = choose("auto", None)
    assert choice.path is None and "pip install 'promptpath[server]'" in str(choice.why)


def test_paced_is_paced_and_has_nothing_to_explain() -> None:
    pulled()
    assert choose("paced", None) == choose("paced", "any-name") == Choice(None)


def test_a_name_is_for_the_paced_engine_and_a_path_is_a_model(tmp_path: Path) -> None:
    assert choose("auto", "my-model") == Choice(None)
    path = tmp_path / "m.gguf"
    path.write_bytes(b"")
    assert choose("auto", str(path)) == choose("model", str(path)) == Choice(str(path))


@pytest.mark.parametrize(
    ("engine", "model"),
    [("model", None), ("model", "smollm2"), ("auto", "smollm2"), ("auto", "./none.gguf")],
)
def test_what_was_asked_for_and_is_not_there_is_an_error(
    engine: engine_choice.EngineName, model: str | None
) -> None:
    with pytest.raises(ChoiceError):
        choose(engine, model)


def test_a_model_without_torch_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_torch(monkeypatch)
    with pytest.raises(ChoiceError, match="torch is not installed"):
        choose("model", str(tmp_path))
