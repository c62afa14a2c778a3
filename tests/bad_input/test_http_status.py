"""Answers that refuse: exit 1, the finding with its advice, the far side without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bad_input.tool import CHAT, KEY, MESSAGES, PROMPT, hold_without_reading, trace
from tests.peers.scripted import (
    RST,
    Endless,
    ReadBytes,
    ReadRequest,
    ScriptedOrigin,
    chunk,
    head,
    response,
)
from tests.peers.threaded import Connection


def error_body(message: str, kind: str = "invalid_request_error") -> bytes:
    """An error document as OpenAI sends it."""
    return json.dumps({"error": {"message": message, "type": kind, "code": "c"}}).encode()


STATUSES = {
    401: ("PP501", "--key-env"),
    403: ("PP501", "--key-env"),
    404: ("PP502", "--model"),
    413: ("PP503", "client_max_body_size"),
    422: ("PP506", "Read the message"),
    500: ("PP505", "request id"),
    502: ("PP505", "request id"),
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_refusing_status_is_a_finding_with_advice(tmp_path: Path, status: int) -> None:
    rule, advice = STATUSES[status]
    body = response(status, error_body("not like this"), "application/json")
    with ScriptedOrigin([ReadRequest(), body]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert advice in result.advice(rule)
    assert f"status {status}" in result.out
    assert "not like this" in result.out
    assert result.report["end_state"] == "not-a-stream"
    assert result.report["latency"]["headers_ms"] > 0
    assert result.report["latency"]["ttft_ms"] is None


def test_key_and_prompt_that_an_error_repeats_are_not_repeated(tmp_path: Path) -> None:
    said = f"Incorrect API key provided: {KEY}. Your input was: {PROMPT}"
    body = response(401, error_body(said), "application/json")
    with ScriptedOrigin([ReadRequest(), body]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.advice("PP501")
    assert "Incorrect API key provided: REDACTED" in result.out


def test_a_key_in_a_header_of_the_users_is_not_repeated(tmp_path: Path) -> None:
    said = error_body(f"unknown credentials {KEY}")
    answer = response(401, said, "application/json", ("x-echo", f"Bearer {KEY}"))
    with ScriptedOrigin([ReadRequest(), answer]) as origin:
        options = ("-H", f"Authorization: Bearer {KEY}")
        result = trace(tmp_path, origin.url(CHAT), *options, key=False)
    assert result.advice("PP501")


def test_a_key_in_the_url_is_not_repeated(tmp_path: Path) -> None:
    said = error_body(f"unknown key {KEY}")
    answer = response(403, said, "application/json", ("location", f"/x?key={KEY}"))
    with ScriptedOrigin([ReadRequest(), answer]) as origin:
        result = trace(tmp_path, origin.url(f"{CHAT}?key={KEY}"), key=False)
    assert result.advice("PP501")


def test_control_characters_in_an_error_are_shown_as_escapes(tmp_path: Path) -> None:
    said = error_body("\x1b]0;owned\x07\x1b[2J\x00\u202egnp\r\nFake: line")
    nasty = ("server", "nginx\x9b31m")
    with ScriptedOrigin([ReadRequest(), response(500, said, "application/json", nasty)]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.advice("PP505")
    assert r"\x1b" in result.out


def test_a_413_that_comes_while_the_upload_is_blocked_is_an_answer(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_bytes(b'{"model": "m", "filler": "' + b"a" * 8_000_000 + b'"}')
    early = response(413, b"too large", "text/plain", ("connection", "close"))

    def refuse(connection: Connection) -> None:
        connection.read_exactly(20_000)
        connection.send(early)
        hold_without_reading(connection)

    with ScriptedOrigin(refuse) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--data", f"@{body}", prompt=False, limit_s=15)
    body.unlink()
    assert result.code == 1
    assert result.fact("http.status") == 413
    assert result.advice("PP503")
    uploads = [span for span in result.trace["spans"] if span["name"] == "upload"]
    assert uploads[0]["outcome"] == "cancelled", "the upload did not end, and must not look so"
    assert result.seconds < 10


def test_an_upload_that_is_reset_names_the_stage(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_bytes(b'{"model": "m", "filler": "' + b"a" * 8_000_000 + b'"}')
    with ScriptedOrigin([ReadBytes(20_000), RST]) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--data", f"@{body}", prompt=False, limit_s=15)
    body.unlink()
    assert result.code == 3
    failure = result.fact("failure")
    assert failure["stage"] in ("request", "wait")
    assert failure["hint"]
    assert "request" in result.spans("failed")


@pytest.mark.parametrize(
    ("wait", "said"),
    [("20", "Retry-After: 20 s"), ("soon", "no Retry-After"), ("-5", "no Retry-After")],
)
def test_a_429_says_how_long_to_wait(tmp_path: Path, wait: str, said: str) -> None:
    limits = (("retry-after", wait), ("x-ratelimit-remaining-requests", "0"))
    body = response(429, error_body("slow down", "rate_limit"), "application/json", *limits)
    with ScriptedOrigin([ReadRequest(), body]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert "quota" in result.advice("PP504")
    assert said in result.out.replace("\n    ", " ")
    assert result.fact("http.rate_limit") is not None


def test_a_503_page_of_a_proxy_is_read_as_a_page(tmp_path: Path) -> None:
    page = b"<html><head><title>503 \x1b[31mdown</title></head><body>nginx</body></html>"
    with ScriptedOrigin([ReadRequest(), response(503, page, "text/html")]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert result.advice("PP505")
    assert result.fact("http.error_body")["message"].startswith("503 ")


def test_a_page_under_200_is_not_an_answer(tmp_path: Path) -> None:
    page = b"<html><head><title>Hotel WLAN: log in</title></head></html>"
    with ScriptedOrigin([ReadRequest(), response(200, page, "text/html")]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert "portal" in result.advice("PP507")
    assert result.report["end_state"] == "not-a-stream"


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_one_json_document_instead_of_a_stream_is_said(tmp_path: Path, path: str) -> None:
    document = json.dumps({"id": "c1", "choices": [{"message": {"content": "all at once"}}]})
    answer = response(200, document.encode(), "application/json")
    with ScriptedOrigin([ReadRequest(), answer]) as origin:
        result = trace(tmp_path, origin.url(path))
    assert result.code == 0, "measured, and no error: a warning"
    assert "stream" in result.advice("PP508")
    assert result.report["latency"]["ttft_ms"] is None
    assert "all at once" not in result.out + (tmp_path / "trace.json").read_text()


@pytest.mark.parametrize("location", [CHAT, "file:///etc/passwd", "http://[", "//", None])
def test_a_redirect_that_leads_nowhere_is_an_error(tmp_path: Path, location: str | None) -> None:
    headers = [] if location is None else [("location", location)]
    answer = response(307, b"", "text/plain", *headers)
    with ScriptedOrigin([ReadRequest(), answer]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert "name the right URL" in result.advice("PP516")


@pytest.mark.parametrize("status", [200, 204])
def test_an_answer_that_is_no_stream_is_said(tmp_path: Path, status: int) -> None:
    body = b"ok" if status == 200 else b""
    with ScriptedOrigin([ReadRequest(), response(status, body, "text/plain")]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 0, "a warning: something was measured"
    assert "dialect" in result.advice("PP515")
    assert result.report["end_state"] == "not-a-stream"


def test_a_json_error_document_under_200_is_an_error(tmp_path: Path) -> None:
    answer = response(200, error_body("overloaded"), "application/json")
    with ScriptedOrigin([ReadRequest(), answer]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert result.advice("PP520")
    assert "overloaded" in result.out


def test_an_error_status_with_an_endless_body_ends_at_the_timeout(tmp_path: Path) -> None:
    endless = Endless(chunk(b"x" * 1000), gap_ms=1)
    with ScriptedOrigin([ReadRequest(), head(500, "text/plain"), endless]) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--timeout", "500ms", limit_s=10)
    assert result.code == 1
    assert {"PP505", "PP908"} <= result.codes()


def test_redirects_in_a_circle_end(tmp_path: Path) -> None:
    onward = response(307, b"", "text/plain", ("location", CHAT), ("connection", "close"))
    with ScriptedOrigin([ReadRequest(), onward]) as origin:
        result = trace(tmp_path, origin.url(CHAT), limit_s=15)
        assert len(origin.requests) == 6, "the first and five redirects"
    assert result.fact("http.status") == 307
    assert "PP407" in result.codes()


@pytest.mark.parametrize(
    "location", ["ftp://elsewhere.test/", "http://[::zz]/", "\x1b[2J", "http://127.0.0.1:0/"]
)
def test_a_redirect_to_nowhere_ends_the_trip_and_not_the_program(
    tmp_path: Path, location: str
) -> None:
    answer = response(302, b"", "text/plain", ("location", location))
    with ScriptedOrigin([ReadRequest(), answer]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.fact("http.status") == 302
