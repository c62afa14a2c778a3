from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from promptpath.cli.check_file import MAX_BYTES, load, option_kinds
from promptpath.errors import UsageError

GOOD = """\
[defaults]
repeat = 3
max-ttft = "2s"

[[target]]
name = "chat"
url = "https://llm.example/v1/chat/completions"
require-streaming = true

[[target]]
url = "https://other.example/v1/messages?key=sk-secret-1234567890"
max-ttft = "5s"
allow = ["PP412"]
max-tokens = 64
"""


def written(directory: Path, text: str) -> str:
    file = directory / "paths.toml"
    file.write_text(text)
    return str(file)


def refused(directory: Path, text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(written(directory, text))
    return caught.value


def test_targets_have_their_own_values_over_the_defaults(tmp_path: Path) -> None:
    chat, other = load(written(tmp_path, GOOD))
    assert (chat.name, chat.line) == ("chat", 5)
    assert chat.values == {
        "repeat": 3,
        "max_ttft": "2s",
        "require_streaming": True,
        "url": "https://llm.example/v1/chat/completions",
    }
    assert (other.values["max_ttft"], other.values["repeat"]) == ("5s", 3)
    assert (other.line, other.values["allow"], other.values["max_tokens"]) == (10, ["PP412"], 64)


def test_a_target_without_a_name_is_called_by_its_url_without_secrets(tmp_path: Path) -> None:
    other = load(written(tmp_path, GOOD))[1]
    assert other.name.startswith("https://other.example/") and "secret" not in other.name


@pytest.mark.parametrize(
    ("old", "new", "what", "line"),
    [
        ("require-streaming", "require-streming", "unknown key 'require-streming'", 8),
        ('"5s"', "5", "bad value of max-ttft", 12),
        ("max-tokens = 64", "max-tokens = 0", "bad value of max-tokens", 14),
        ("repeat = 3", "repeat = true", "bad value of repeat", 2),
        ('["PP412"]', '"PP412"', "bad value of allow", 13),
        ("streaming = true", 'streaming = "yes"', "bad value of require-streaming", 8),
        ('max-ttft = "2s"', 'name = "x"', "unknown key 'name'", 3),
        ('max-ttft = "5s"', 'name = "chat"', "a second target is called 'chat'", 12),
        ('url = "https://llm', 'sni = "https://llm', "no url", 5),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    old: str, new: str, what: str, line: int, tmp_path: Path
) -> None:
    assert old in GOOD
    error = refused(tmp_path, GOOD.replace(old, new, 1))
    assert error.what == what
    assert error.where is not None and f", line {line}, " in error.where


def test_a_misspelt_key_is_answered_with_the_near_one(tmp_path: Path) -> None:
    error = refused(tmp_path, GOOD.replace("max-ttft", "max_ttft", 1))
    assert error.hint == "did you mean max-ttft?"


@pytest.mark.parametrize(
    "text",
    ["", "[defaults]\nrepeat = 2\n", "target = 3\n", "[[targets]]\n", "a = \n", "defaults = 1\n"],
)
def test_a_file_that_is_no_budget_file_is_refused(text: str, tmp_path: Path) -> None:
    assert refused(tmp_path, text).exit_code == 2


def test_a_file_that_is_missing_binary_or_huge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        load(str(tmp_path / "none.toml"))
    file = tmp_path / "binary.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        load(str(file))
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(UsageError, match="too large"):
        load(str(file))


def test_keys_are_the_options_of_a_target() -> None:
    kinds = option_kinds()
    assert (kinds["max-ttft"], kinds["allow"], kinds["insecure"]) == (str, list, bool)
    assert kinds["repeat"] is int and "json" not in kinds and "strict" not in kinds


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    for body in (text, f"[[target]]\n{text}"):
        try:
            load(written(tmp_path, body))
        except UsageError as error:
            assert all("\x1b" not in line for line in error.lines())


def test_an_errors_option_is_found_in_its_line(tmp_path: Path) -> None:
    chat, other = load(written(tmp_path, GOOD))
    assert chat.line_of("--max-ttft: not a duration") == 3
    assert other.line_of("--max-ttft 5 s contradicts --repeat") == 12
    assert other.line_of("something else") == other.line
