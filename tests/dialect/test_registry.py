"""Finding a dialect by name and by URL."""

from __future__ import annotations

import pytest

from promptpath.dialect.providers import PROVIDERS, provider_of
from promptpath.dialect.registry import DIALECTS, by_name, by_url
from promptpath.errors import UsageError
from promptpath.model.plan import Plan, Target


@pytest.mark.parametrize(
    ("host", "path", "name"),
    [
        ("api.openai.com", "/v1/chat/completions", "openai-chat"),
        ("127.0.0.1", "/v1/chat/completions?x=1", "openai-chat"),
        ("api.anthropic.com", "/v1/messages", "anthropic"),
        ("api.anthropic.com", "/v1/messages/", "anthropic"),
        (
            "me.openai.azure.com",
            "/openai/deployments/d/chat/completions?api-version=1",
            "azure-openai",
        ),
        ("me.openai.azure.com", "/anthropic/v1/messages", "anthropic"),
        ("api.openai.com", "/v1/models", None),
        ("example.net", "/", None),
    ],
)
def test_a_url_suggests_a_dialect(host: str, path: str, name: str | None) -> None:
    found = by_url(host, path)
    assert (found.name if found else None) == name


def test_a_name_finds_its_dialect_and_a_wrong_one_lists_them_all() -> None:
    for dialect in DIALECTS:
        assert by_name(dialect.name) is dialect
    with pytest.raises(UsageError) as caught:
        by_name("klingon")
    assert "openai-chat" in (caught.value.expected or "")


def test_names_are_unique_and_a_provider_names_a_dialect_there_is() -> None:
    names = [dialect.name for dialect in DIALECTS]
    assert len(names) == len(set(names))
    assert {p.dialect for p in PROVIDERS if p.dialect} <= set(names)


def test_a_host_belongs_to_its_vendor_only() -> None:
    groq, azure = provider_of("API.groq.com."), provider_of("me.openai.azure.com")
    assert groq is not None and groq.key_variables == ("GROQ_API_KEY",)
    assert azure is not None and azure.dialect == "azure-openai"
    assert provider_of("api.openai.com.evil.example") is None
    assert provider_of("evilapi.openai.com") is None
    assert provider_of("localhost") is None


def test_a_generic_dialect_does_not_know_how_to_ask() -> None:
    plan = Plan(target=Target(scheme="http", host="h", port=80, path="/"))
    with pytest.raises(UsageError, match="does not say how"):
        by_name("generic-sse").ask(plan)
