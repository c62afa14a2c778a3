"""JSON of the far side: whatever comes, a usable value or NOT_JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.dialect.payload import (
    NOT_JSON,
    NotJson,
    as_dict,
    at,
    count,
    number,
    parse,
    parse_prefix,
    word,
)


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_are_not_json(data: bytes) -> None:
    value = parse(data)
    assert isinstance(value, NotJson) or json.dumps(value).encode()


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda v: st.lists(v)))
def test_what_the_standard_library_writes_is_read(value: object) -> None:
    assert repr(parse(json.dumps(value).encode())) == repr(value)


def test_lone_surrogates_and_bad_utf8_become_replacement_characters() -> None:
    assert parse(b'{"a\\ud800": ["\\udfff", 1]}') == {"a\ufffd": ["\ufffd", 1]}
    assert parse(b'{"a": "\xff"}') == {"a": "\ufffd"}


def test_a_document_nested_too_deeply_is_not_json() -> None:
    assert parse(b"[" * 200_000) is NOT_JSON
    assert parse(b"[" * 100_000 + b"]" * 100_000) is NOT_JSON
    assert parse_prefix("[" * 200_000) is NOT_JSON


def test_a_number_with_thousands_of_digits_is_not_json_or_no_count() -> None:
    value = parse(b'{"n": ' + b"9" * 10_000 + b"}")
    assert value is NOT_JSON or count(at(value, "n")) is None


def test_garbage_behind_a_document_does_not_hide_it() -> None:
    assert parse_prefix(' {"a": 1}<html>') == {"a": 1}
    assert parse(b'{"a": 1}<html>') is NOT_JSON


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (7, 7),
        (7.0, 7),
        ("12", 12),
        (7.5, None),
        (-1, None),
        (True, None),
        (None, None),
        ("", None),
        ("x", None),
        (float("nan"), None),
        (float("inf"), None),
        (2**63 - 1, 2**63 - 1),
        (2**63, None),
        (10**400, None),
        ("1" * 50, None),
        ([1], None),
    ],
)
def test_a_count_is_a_whole_number_that_fits_the_log(value: object, expected: int | None) -> None:
    assert count(value) == expected


def test_a_number_may_stand_in_a_string() -> None:
    assert number("0.25") == 0.25
    assert number(False) is None


def test_a_word_is_a_string_or_a_number_but_never_empty() -> None:
    assert word("stop") == "stop"
    assert word(404) == "404"
    assert word("") is None
    assert word(True) is None
    assert word({}) is None


def test_a_path_through_anything_but_objects_leads_to_none() -> None:
    assert at({"a": {"b": 1}}, "a", "b") == 1
    assert at({"a": [1]}, "a", "b") is None
    assert at(None, "a") is None
    assert as_dict([1]) == {}
