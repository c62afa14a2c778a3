"""The import contracts catch what they are there for: each is broken on purpose in a copy."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WRONG_IMPORTS = (
    ("promptpath/wire/wrong.py", "import promptpath.dialect", "layers"),
    ("promptpath/analysis/wrong.py", "import promptpath.dialect", "layers"),
    ("promptpath/probe/wrong.py", "import promptpath.export", "layers"),
    (
        "promptpath/model/wrong.py",
        "import time",
        "pure layers touch no clock, socket, loop or dice",
    ),
    (
        "promptpath/probe/wrong.py",
        "import rich",
        "only the command line and the terminal export draw",
    ),
    (
        "reference_server/wrong.py",
        "import promptpath.model",
        "the tool and the reference server share a contract, no code",
    ),
    ("reference_server/wrong.py", "import torch", "torch only in compute"),
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in ("promptpath", "reference_server"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def broken_contracts(directory: Path) -> set[str]:
    """The names of the contracts that lint-imports calls broken there."""
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [program, "--no-cache"], cwd=directory, capture_output=True, text=True, timeout=120
    )
    broken = set(re.findall(r"(?m)^(.+) BROKEN", done.stdout))
    assert broken or done.returncode == 0, done.stdout + done.stderr
    return broken


@pytest.mark.slow
def test_wrong_imports_break_their_contracts(copy: Path) -> None:
    for path, statement, _ in WRONG_IMPORTS:
        with (copy / path).open("a") as file:
            file.write(statement + "\n")
    assert broken_contracts(copy) == {contract for _, _, contract in WRONG_IMPORTS}


def test_every_contract_is_broken_by_some_case() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = {contract["name"] for contract in config["tool"]["importlinter"]["contracts"]}
    assert contracts == {contract for _, _, contract in WRONG_IMPORTS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("promptpath/analysis/wrong.py", "import promptpath.dialect"),
        ("promptpath/wire/wrong.py", "import promptpath.probe"),
        ("promptpath/surplus.py", "X = 1"),
    ],
    ids=["siblings", "upwards", "a module outside the layers"],
)
def test_layers_catch_it(copy: Path, path: str, statement: str) -> None:
    (copy / path).write_text(statement + "\n")
    assert "layers" in broken_contracts(copy)
