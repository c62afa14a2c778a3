"""The tokenizer of a checkpoint folder: tokenizer.json and the small files beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reference_server.text.patterns import DIGITS_THEN_GPT2, GPT2
from reference_server.text.vocabulary import (
    MOST_TOKENS,
    Vocabulary,
    VocabularyError,
    merge_results,
    token_bytes,
)


def folder_vocabulary(folder: Path) -> Vocabulary:
    """Read `tokenizer.json`, and where there are `tokenizer_config.json` and
    `chat_template.jinja`. Raises VocabularyError, also for a file that cannot be read."""
    tokenizer = _read(folder / "tokenizer.json")
    config_file, template_file = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    config = _read(config_file) if config_file.is_file() else {}
    template = template_file.read_text("utf-8") if template_file.is_file() else _template(config)
    return json_vocabulary(tokenizer, config, template)


def json_vocabulary(
    tokenizer: Mapping[str, Any], config: Mapping[str, Any], template: str | None = None
) -> Vocabulary:
    """The vocabulary of a parsed tokenizer.json; raises VocabularyError."""
    model = tokenizer.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE" or model.get("byte_fallback"):
        raise VocabularyError("tokenizer.json holds no byte-level BPE model")
    ids = model.get("vocab")
    merges = model.get("merges")
    if not isinstance(ids, dict) or not isinstance(merges, list):
        raise VocabularyError("tokenizer.json: model.vocab or model.merges is missing")
    specials = _added(tokenizer)
    first = _first(tokenizer.get("post_processor"))
    return Vocabulary(
        tokens=_tokens(ids, specials),
        merged=merge_results(merges),
        specials=specials,
        pattern=_pattern(tokenizer.get("pre_tokenizer")),
        nfc=_nfc(tokenizer.get("normalizer")),
        bos_id=specials.get(first or _name(config, "bos_token")),
        eos_id=specials.get(_name(config, "eos_token")),
        begins_with_bos=bool(first) or config.get("add_bos_token") is True,
        template=template,
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise VocabularyError(f"{file.name} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise VocabularyError(f"{file.name} holds no object")
    return value


def _added(tokenizer: Mapping[str, Any]) -> dict[str, int]:
    """The added tokens, special or not: none of them is ever made from a user's text."""
    added: dict[str, int] = {}
    tokens = tokenizer.get("added_tokens", [])
    if not isinstance(tokens, list):
        raise VocabularyError("tokenizer.json: added_tokens is not a list")
    for token in tokens:
        at = token.get("id") if isinstance(token, dict) else None
        name = token.get("content") if isinstance(token, dict) else None
        if type(at) is not int or not 0 <= at < MOST_TOKENS or not (isinstance(name, str) and name):
            raise VocabularyError("tokenizer.json: an added token has no id or content")
        added[name] = at
    return added


def _tokens(ids: Mapping[str, Any], specials: Mapping[str, int]) -> tuple[bytes | None, ...]:
    every = [*ids.values(), *specials.values()]
    if not all(type(at) is int and 0 <= at < MOST_TOKENS for at in every):
        raise VocabularyError("tokenizer.json: an id is no number in range")
    tokens: list[bytes | None] = [None] * (max(every, default=-1) + 1)
    for text, at in ids.items():
        if text not in specials:
            tokens[at] = token_bytes(text)
    return tuple(tokens)


def _pattern(pre: Any) -> str:
    """The cutting rule as one expression; refuses what would need another."""
    steps = pre.get("pretokenizers") if isinstance(pre, dict) else None
    kinds = [_step(step) for step in (steps if isinstance(steps, list) else [pre])]
    match kinds:
        case [("ByteLevel", True)]:
            return GPT2
        case [("Digits", True), ("ByteLevel", True)]:
            return DIGITS_THEN_GPT2
        case [("Split", str() as regex), ("ByteLevel", False)]:
            return regex
    raise VocabularyError("tokenizer.json: this pre_tokenizer is not known")


def _step(step: Any) -> tuple[str, object]:
    """One step's kind and what matters of it; an empty kind for what is not known."""
    match step:
        case {"type": "ByteLevel", "add_prefix_space": False, **rest}:
            return "ByteLevel", rest.get("use_regex", True)
        case {"type": "Digits", "individual_digits": bool(alone)}:
            return "Digits", alone
        case {"type": "Split", "pattern": {"Regex": str(regex)}, "behavior": "Isolated", **rest}:
            return ("Split", regex) if not rest.get("invert") else ("", None)
    return "", None


def _first(post: Any) -> str:
    """The special token that a post-processor puts before every text (Llama 3's); empty: none."""
    steps = post.get("processors") if isinstance(post, dict) else None
    for step in steps if isinstance(steps, list) else [post]:
        match step:
            case {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": str(name)}}, *_],
            }:
                return name
    return ""


def _nfc(normalizer: Any) -> bool:
    if normalizer is None:
        return False
    if isinstance(normalizer, dict) and normalizer.get("type") == "NFC":
        return True
    raise VocabularyError("tokenizer.json: only the normalizer NFC, or none, is known")


def _name(config: Mapping[str, Any], key: str) -> str:
    """A token's name, written as a string or as an object with `content`."""
    value = config.get(key)
    value = value.get("content") if isinstance(value, dict) else value
    return value if isinstance(value, str) else ""


def _template(config: Mapping[str, Any]) -> str | None:
    """The chat template: a string, or the one called "default" of a list."""
    value = config.get("chat_template")
    if isinstance(value, list):
        named = [each for each in value if isinstance(each, dict) and each.get("name") == "default"]
        value = named[0].get("template") if named else None
    return value if isinstance(value, str) else None
