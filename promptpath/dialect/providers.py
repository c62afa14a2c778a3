"""Vendors by host: whose key goes there, and which relative of a dialect is spoken.

Variable names are those of the vendors' own SDKs and quick-start pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Provider:
    """A vendor's host (exact, or ".suffix" for all below it)."""

    host: str
    key_variables: tuple[str, ...]
    dialect: str | None = None
    """A dialect that differs from the path's usual one."""


PROVIDERS: Final[tuple[Provider, ...]] = (
    Provider("api.openai.com", ("OPENAI_API_KEY",)),
    Provider("api.anthropic.com", ("ANTHROPIC_API_KEY",)),
    Provider(".openai.azure.com", ("AZURE_OPENAI_API_KEY",), "azure-openai"),
    Provider(".services.ai.azure.com", ("AZURE_OPENAI_API_KEY",), "azure-openai"),
    Provider(".cognitiveservices.azure.com", ("AZURE_OPENAI_API_KEY",), "azure-openai"),
    Provider("api.groq.com", ("GROQ_API_KEY",)),
    Provider("api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    Provider("api.mistral.ai", ("MISTRAL_API_KEY",)),
    Provider("openrouter.ai", ("OPENROUTER_API_KEY",)),
    Provider("api.together.xyz", ("TOGETHER_API_KEY",)),
    Provider("api.together.ai", ("TOGETHER_API_KEY",)),
    Provider("api.fireworks.ai", ("FIREWORKS_API_KEY",)),
    Provider("api.cerebras.ai", ("CEREBRAS_API_KEY",)),
    Provider("api.x.ai", ("XAI_API_KEY",)),
    Provider("api.sambanova.ai", ("SAMBANOVA_API_KEY",)),
    Provider("router.huggingface.co", ("HF_TOKEN",)),
    Provider("api.perplexity.ai", ("PERPLEXITY_API_KEY",)),
    Provider("api.z.ai", ("ZAI_API_KEY",)),
    Provider("generativelanguage.googleapis.com", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
    Provider("api.cohere.com", ("CO_API_KEY",)),
)


def provider_of(host: str) -> Provider | None:
    """The vendor this host belongs to, or None."""
    host = host.lower().rstrip(".")
    for provider in PROVIDERS:
        if host == provider.host or (
            provider.host.startswith(".") and host.endswith(provider.host)
        ):
            return provider
    return None
