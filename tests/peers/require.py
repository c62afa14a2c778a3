"""A missing real peer skips a test and says how to get it; in CI it fails, so that no test is
silently left out there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from tests.peers.programs import find, install_line, package


def in_ci() -> bool:
    """Whether this run must not skip."""
    return os.environ.get("CI", "").lower() in {"1", "true", "yes"}


def unavailable(what: str, remedy: str) -> NoReturn:
    """Skip the test, or fail it in CI; `remedy` is what a person does about it."""
    message = f"{what}; {remedy}"
    if in_ci():
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def require(program: str) -> str:
    """The program's path; without it the test skips with the install line (fails in CI)."""
    path = find(program)
    if path is None:
        unavailable(f"{program} is not installed", install_line(package(program)))
    return path
