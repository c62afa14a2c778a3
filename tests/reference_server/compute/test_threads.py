"""How many threads compute."""

from __future__ import annotations

import os

import pytest

from reference_server.compute.threads import Threads, prepare_threads


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing set before, and what the test sets is undone."""
    for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("cores", "asked", "expected", "policy"),
    [
        (1, None, Threads(1, 1), "passive"),
        (2, None, Threads(1, 2), "passive"),
        (4, None, Threads(3, 3), "passive"),
        (8, None, Threads(7, 7), None),
        (2, 2, Threads(2, 2), "passive"),
        (16, 4, Threads(4, 4), None),
    ],
)
def test_a_core_is_left_to_the_rest_and_few_cores_do_not_spin(
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    asked: int | None,
    expected: Threads,
    policy: str | None,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    assert prepare_threads(asked) == expected
    assert os.environ["OMP_NUM_THREADS"] == str(expected.wide)
    assert os.environ.get("OMP_WAIT_POLICY") == policy


def test_a_policy_of_the_users_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    prepare_threads(1)
    assert os.environ["OMP_WAIT_POLICY"] == "active"


def test_a_person_reads_how_many() -> None:
    assert str(Threads(1, 1)) == "1 thread" and str(Threads(7, 7)) == "7 threads"
    assert str(Threads(1, 2)) == "1 thread, 2 where it pays"
