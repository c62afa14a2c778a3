"""The one gate: no secret and no control character gets past it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.model.codec import encode
from promptpath.model.plan import Override, Plan, ProxyKind, ProxyPlan, Target
from promptpath.model.redact import (
    REDACTED,
    is_secret_header,
    plan_record,
    printable,
    redact_headers,
    redact_text,
    redact_url,
)

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "x-api-key",
        "api-key",
        "X-Goog-Api-Key",
        "Cookie",
        "set-cookie",
        "proxy-authorization",
        "x-amz-security-token",
        "x-my-secret",
        "x-session-id",
        "my_password",
    ],
)
def test_headers_that_carry_keys_are_secret(name: str) -> None:
    assert is_secret_header(name)
    assert redact_headers([(name, SECRET)]) == [[name.lower(), REDACTED]]


@pytest.mark.parametrize(
    "name",
    [
        "content-type",
        "x-request-id",
        "cf-ray",
        "x-ratelimit-remaining-tokens",
        "anthropic-ratelimit-tokens-reset",
        "openai-processing-ms",
        "server-timing",
        "monkey",
    ],
)
def test_headers_a_ticket_needs_are_kept(name: str) -> None:
    assert redact_headers([(name, "value")]) == [[name, "value"]]


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-abcdefghijklmnop",
        "Bearer abcdefghijklmnopqrstuvwxyz",
        "key AIzaSyA1234567890abcdefghijklmn",
        "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
        "gsk_abcdefghijklmnop",
    ],
)
def test_words_that_look_like_keys_are_replaced_whole(text: str) -> None:
    shown = redact_text(text)
    assert REDACTED in shown
    assert not any(piece in shown for piece in ("abcdefghij", "SyA123456", "eyJzdWI"))


def test_known_secrets_are_replaced_wherever_they_stand() -> None:
    assert SECRET not in redact_text(f"you sent {SECRET}!", secrets=[SECRET])


def test_a_url_loses_its_user_its_fragment_and_its_secret_values() -> None:
    shown = redact_url(f"https://me:{SECRET}@llm.example/v1?key={SECRET}&model=x&sig={SECRET}#a")
    assert shown == f"https://llm.example/v1?key={REDACTED}&model=x&sig={REDACTED}"
    assert redact_url("https://[::1/") == REDACTED


@given(st.text(max_size=60))
def test_nothing_that_moves_a_cursor_or_hides_text_is_left(text: str) -> None:
    shown = redact_text(text)
    assert not any(unicodedata.category(c) == "Cc" and c != "\t" for c in shown)
    assert not any("\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" for c in shown)
    assert printable(shown) == shown


def test_escapes_are_shown_not_sent() -> None:
    assert printable("a\x1b[31mb\r\n\u202ec") == "a\\x1b[31mb\\x0d\\x0a\\u202ec"


def test_long_text_is_cut() -> None:
    assert redact_text("x y " * 5000, limit=300).endswith("...")
    assert len(redact_text("x y " * 5000, limit=300)) == 303


@given(st.text(min_size=8, max_size=20, alphabet="abcdefgh0123456789"))
def test_a_plans_record_holds_no_secret_of_the_plan(secret: str) -> None:
    secret = "S" + secret
    plan = Plan(
        target=Target(scheme="https", host="llm.example", port=443, path=f"/v1?api_key={secret}"),
        prompt=f"my prompt {secret}",
        body=secret.encode(),
        headers=(("authorization", f"Bearer {secret}"), ("x-thing", secret)),
        proxy=ProxyPlan(
            kind=ProxyKind.HTTP, host="proxy", port=3128, username="me", password=secret
        ),
        overrides=(Override(host="llm.example", port=443, address="192.0.2.1"),),
    )
    assert secret not in encode(plan_record(plan)).decode()
    assert secret not in repr(plan)
    assert plan_record(plan).header_names == ("authorization", "x-thing")
