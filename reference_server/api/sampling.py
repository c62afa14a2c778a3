"""The fields that say how tokens are chosen and where an answer ends."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from reference_server.api import fields as read
from reference_server.api.fields import Fields
from reference_server.engine.plan import SamplingParams

_STOP_TEXTS = 4
"""OpenAI's limit ("up to 4 sequences")."""
_STOP_CHARACTERS = 256
"""Longest stop text; so much of an answer may be held back for it. A choice."""
_TOP_LOGPROBS = 20
"""OpenAI's limit of `top_logprobs`."""
_SALT_CHARACTERS = 128
"""vLLM's limit of `cache_salt`."""
_PRIORITIES = 1_000_000
_SEEDS = 2**63
"""A seed is a non-negative 64-bit integer for the sampler; OpenAI's may be negative."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a request says about its answer beside the limit of tokens."""

    params: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    cache_salt: str = ""
    priority: int = 0


def sampling(fields: Fields, *, hottest: float, stop: str, top_logprobs: int | None) -> Sampling:
    """Read the common fields; raises ApiError 400.

    `hottest` is the surface's largest temperature, `stop` its name for the stop texts.
    `cache_salt`, `priority` and `top_k` are vLLM's extensions of OpenAI's format.
    """
    return Sampling(
        params=SamplingParams(
            temperature=read.number(fields, "temperature", 0, hottest) or 0.0,
            top_p=_top_p(fields),
            top_k=_top_k(fields),
            seed=_seed(fields),
            top_logprobs=top_logprobs,
        ),
        stop=_stop_texts(fields, stop),
        cache_salt=_salt(fields),
        priority=read.integer(fields, "priority", -_PRIORITIES, _PRIORITIES) or 0,
    )


def chat_logprobs(fields: Fields) -> int | None:
    """OpenAI chat's `logprobs: true` with `top_logprobs`; None when not asked for."""
    wanted = read.flag(fields, "logprobs")
    top = read.integer(fields, "top_logprobs", 0, _TOP_LOGPROBS)
    if top and not wanted:
        raise read.wrong("top_logprobs", "left out, or 'logprobs' must be true")
    return (top or 0) if wanted else None


def _top_p(fields: Fields) -> float:
    value = read.number(fields, "top_p", 0, 1)
    if value == 0:
        raise read.wrong("top_p", "a number above 0 and up to 1")
    return 1.0 if value is None else value


def _top_k(fields: Fields) -> int:
    """vLLM's -1 and 0 keep all."""
    return max(0, read.integer(fields, "top_k", -1, 1_000_000) or 0)


def _seed(fields: Fields) -> int:
    """The client's seed, or a fresh one: two requests without a seed differ."""
    value = read.integer(fields, "seed", -_SEEDS, _SEEDS - 1)
    return secrets.randbits(63) if value is None else value % _SEEDS


def _stop_texts(fields: Fields, name: str) -> tuple[str, ...]:
    value = fields.get(name)
    if value is None:
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or len(texts) > _STOP_TEXTS:
        raise read.wrong(name, f"a text or a list of at most {_STOP_TEXTS}")
    for text in texts:
        if not _is_text(text, _STOP_CHARACTERS):
            raise read.wrong(name, f"texts of 1 to {_STOP_CHARACTERS} characters")
    return tuple(texts)


def _salt(fields: Fields) -> str:
    value = fields.get("cache_salt")
    if value is None:
        return ""
    if not isinstance(value, str) or not _is_text(value, _SALT_CHARACTERS):
        raise read.wrong("cache_salt", f"a string of 1 to {_SALT_CHARACTERS} characters")
    return value


def _is_text(value: object, longest: int) -> bool:
    """A string that is not empty, not too long, and no half of a surrogate pair (RFC 8259 lets JSON
    escape one, UTF-8 has none)."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)
