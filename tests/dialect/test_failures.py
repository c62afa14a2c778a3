"""Error bodies: JSON of every shape, pages, and JSON that claims to be a stream."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.dialect.failures import (
    MAX_MESSAGE_CHARS,
    error_body,
    error_under_success,
    json_error,
    page_title,
)

JSON = "application/json"


@pytest.mark.parametrize(
    ("document", "code", "type", "message"),
    [
        (
            {"error": {"message": "no key", "type": "invalid_request_error", "code": "k"}},
            "k",
            "invalid_request_error",
            "no key",
        ),
        (
            {"type": "error", "error": {"type": "authentication_error", "message": "bad key"}},
            None,
            "authentication_error",
            "bad key",
        ),
        (
            [{"error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}}],
            "400",
            "INVALID_ARGUMENT",
            "bad",
        ),
        ({"error": "model not found"}, None, None, "model not found"),
        ({"detail": "Not Found"}, None, None, "Not Found"),
        (
            {"detail": [{"loc": ["body"], "msg": "field required", "type": "missing"}]},
            None,
            "missing",
            "field required",
        ),
        ({"message": "Unauthorized"}, None, None, "Unauthorized"),
        ({"object": "error", "message": "too long", "code": 40303}, "40303", None, "too long"),
        ({"errors": [{"message": "first"}, {"message": "second"}]}, None, None, "first"),
        (
            {"type": "about:blank", "title": "Too Many Requests", "status": 429},
            None,
            "about:blank",
            "Too Many Requests",
        ),
        ({"error": {"message": None}, "message": "outer"}, None, None, "outer"),
    ],
)
def test_a_json_error_body_gives_code_type_and_message(
    document: object, code: str | None, type: str | None, message: str
) -> None:
    error = error_body(JSON, json.dumps(document).encode())
    assert error is not None
    assert (error.code, error.type, error.message) == (code, type, message)
    assert error.shape == "json-body"


def test_json_behind_an_event_stream_header_is_still_read() -> None:
    body = b'{\n "error": {"code": 404, "message": "no such model"}}\n'
    error = error_body("text/event-stream", body)
    assert error is not None and error.message == "no such model"


def test_an_error_event_in_the_body_of_a_4xx_is_read() -> None:
    error = error_body("text/event-stream", b'event: error\ndata: {"error":{"message":"slow"}}\n\n')
    assert error is not None and error.message == "slow"


def test_garbage_behind_the_json_does_not_hide_the_error() -> None:
    error = error_body(JSON, b'{"error":{"message":"m"}}\r\n0\r\n\r\n<!-- x -->')
    assert error is not None and error.message == "m"


def test_a_page_gives_its_title_without_entities_and_line_ends() -> None:
    page = b"<!DOCTYPE html><html><head><title>503\n Service &amp; Co</title></head><body>x"
    error = error_body("text/html; charset=utf-8", page)
    assert error is not None
    assert (error.shape, error.message) == ("html-page", "503 Service & Co")
    assert page_title(page) == "503 Service & Co"
    assert page_title(b"plain") is None


def test_a_page_without_a_title_gives_its_first_words() -> None:
    error = error_body("text/html", b"<html><body><h1>502 Bad Gateway</h1><hr>nginx</body>")
    assert error is not None and error.message == "502 Bad Gateway nginx"


def test_plain_text_gives_its_first_line_and_nothing_gives_nothing() -> None:
    error = error_body("text/plain", b"upstream connect error\nmore")
    assert error is not None and error.message == "upstream connect error"
    assert error_body(JSON, b" \n") is None


def test_an_endless_message_is_cut() -> None:
    error = error_body(JSON, json.dumps({"error": {"message": "x" * 100_000}}).encode())
    assert error is not None and len(error.message) == MAX_MESSAGE_CHARS


def test_json_that_is_no_error_is_none_in_a_stream() -> None:
    assert json_error(b'{"a": 1}') is None
    assert json_error(b"<html>") is None
    error = json_error(b'\n[{"error": {"message": "quota"}}\n,')
    assert error is None  # an array cut in the middle is no document
    error = json_error(b'garbage {"error": {"message": "quota"}} garbage')
    assert error is not None and error.message == "quota"


@given(st.sampled_from([JSON, "text/html", "", "text/event-stream"]), st.binary(max_size=300))
def test_any_body_is_survived(content_type: str, body: bytes) -> None:
    error_body(content_type, body)
    json_error(body)


def test_a_megabyte_of_open_tags_is_read_quickly() -> None:
    error = error_body("text/html", b"<" * 1_000_000)
    assert error is not None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"error": {"message": "overloaded"}}, "overloaded"),
        ({"type": "error", "error": {"type": "api_error", "message": "m"}}, "m"),
        ({"error": "down"}, "down"),
        ({"error": None, "output": []}, None),
        ({"message": "hello", "title": "fine"}, None),
        ([{"error": "in a list"}], None),
    ],
)
def test_only_an_error_member_makes_a_successful_document_an_error(
    document: object, message: str | None
) -> None:
    found = error_under_success(json.dumps(document).encode())
    assert (found.message if found else None) == message
