from __future__ import annotations

import contextlib
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.cli.curl_tokens import split_command
from promptpath.errors import UsageError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("curl -s  https://h/", ["curl", "-s", "https://h/"]),
        ("curl 'a b' \"c d\"", ["curl", "a b", "c d"]),
        ("curl \\\n  -k", ["curl", "-k"]),
        ("curl \\\r\n  -k", ["curl", "-k"]),
        ("curl ''", ["curl", ""]),
        (r"""curl $'it\'s\n\x41\u00e9\101\\'""", ["curl", "it's\nA\u00e9A\\"]),
        (r'curl "a\"b\\c\d"', ["curl", 'a"b\\c\\d']),
        ("curl pre'mid'\"post\"", ["curl", "premidpost"]),
        ("curl https://h/?a=1&b=2", ["curl", "https://h/?a=1&b=2"]),
        ('curl \'{"a": "$x"}\'', ["curl", '{"a": "$x"}']),
        ('curl "Bearer $KEY" ${KEY}x', ["curl", "Bearer k1", "k1x"]),
        ("curl 5$", ["curl", "5$"]),
    ],
)
def test_words_are_those_of_a_posix_shell(text: str, words: list[str]) -> None:
    assert split_command(text, {"KEY": "k1"}) == words


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("curl 'open", "unclosed quote"),
        ('curl "open', "unclosed quote"),
        ("curl $'open", "unclosed quote"),
        ("curl x | jq .", "shell operator"),
        ("curl x > file", "shell operator"),
        ("curl x; rm y", "shell operator"),
        ("curl x & y", "shell operator"),
        ("curl $(cat key)", "command substitution"),
        ("curl `cat key`", "command substitution"),
        ('curl "$MISSING"', "$MISSING, which is not set"),
    ],
)
def test_what_a_shell_would_run_is_refused(text: str, what: str) -> None:
    with pytest.raises(UsageError) as raised:
        split_command(text, {})
    assert what in raised.value.what


@given(st.lists(st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=10)))
def test_what_shlex_quotes_comes_back(words: list[str]) -> None:
    assert split_command(shlex.join(words), {}) == words


@given(st.text(max_size=30))
def test_any_text_is_words_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        split_command(text, {})
