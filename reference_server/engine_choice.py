"""Which engine runs: the one asked for, or the best that is at hand."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from reference_server.weights import SMOLLM2, kept

EngineName = Literal["auto", "paced", "model", "none"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The engine to run."""

    path: str | None
    """The model's file or folder; None is the paced engine."""
    why: str | None = None
    """Why it is the paced engine although nobody asked for it; else None."""


class ChoiceError(Exception):
    """What was asked for is not at hand; the text says how to get it."""


def choose(engine: EngineName, model: str | None) -> Choice:
    """`auto` takes the model that is named, or the default one where it can run at once, and else
    the paced engine. Raises ChoiceError when what was asked for cannot run."""
    if engine in ("paced", "none"):
        return Choice(None)
    if engine == "auto" and model is not None and not _names_a_model(model):
        return Choice(None)  # A name for the paced engine.
    try:
        return Choice(_path(model))
    except ChoiceError as error:
        if engine == "model" or model is not None:
            raise
        return Choice(None, str(error))


def _names_a_model(model: str) -> bool:
    return model == SMOLLM2.nickname or "/" in model or Path(model).exists()


def _path(model: str | None) -> str:
    if find_spec("torch") is None:
        raise ChoiceError("torch is not installed: pip install 'promptpath[server]'")
    if model not in (None, SMOLLM2.nickname):
        if not Path(str(model)).exists():
            raise ChoiceError(f"there is no model at {model}")
        return str(model)
    path = kept(SMOLLM2)
    if path is None:
        raise ChoiceError("the default model is not here: promptpath model pull")
    return str(path)
