"""The one gate: no secret and no control character gets past it."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.model.codec import encode
from promptpath.model.plan import Override, Plan, ProxyKind, ProxyPlan, Target
from promptpath.model.redact import (
    REDACTED,
    is_secret_header,
    plan_record,
    plan_secrets,
    printable,
    redact_headers,
    redact_text,
    redact_url,
    scrub,
    without_secrets,
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


def test_what_a_plan_sends_is_known_as_secret_whatever_carries_it() -> None:
    plan = Plan(
        target=Target(scheme="https", host="h.example", port=443, path="/v1?key=query%2Fkey&a=b"),
        prompt="a prompt nobody else may read",
        headers=(("authorization", "Bearer header-key"), ("cookie", "a=cookie-key; b=c")),
        proxy=ProxyPlan(kind=ProxyKind.HTTP, host="p", port=1, username="u", password="proxy-key"),
    )
    found = plan_secrets(plan)
    assert {"query%2Fkey", "query/key", "header-key", "cookie-key", "proxy-key"} <= set(found)
    assert plan.prompt in found
    assert "c" not in found
    assert plan.prompt not in plan_secrets(replace(plan, keep_content=True))
    assert plan_secrets(replace(plan, prompt="status")) == tuple(
        secret for secret in found if secret != plan.prompt
    )


def test_a_secret_is_replaced_in_every_string_of_a_value() -> None:
    value = {"a": [SECRET, 1, None, {"b": f"x {SECRET} y"}], "c": SECRET[:10] + "..."}
    assert scrub(value, (SECRET,)) == {
        "a": [REDACTED, 1, None, {"b": f"x {REDACTED} y"}],
        "c": REDACTED + "...",
    }


@given(st.integers(min_value=8, max_value=len(SECRET)))
def test_a_secret_that_a_cut_shortened_is_replaced_too(length: int) -> None:
    assert without_secrets("key: " + SECRET[:length], (SECRET,)) == f"key: {REDACTED}"


def test_a_signed_address_in_a_location_loses_its_signature() -> None:
    shown = redact_headers([("Location", f"https://s3.example/o?X-Amz-Signature={SECRET}&a=b")])
    assert shown == [["location", f"https://s3.example/o?X-Amz-Signature={REDACTED}&a=b"]]
