"""The tokenizer in a GGUF file's metadata."""

from __future__ import annotations

from collections.abc import Mapping

from reference_server.text.patterns import GGUF_PATTERNS
from reference_server.text.vocabulary import (
    Vocabulary,
    VocabularyError,
    merge_results,
    token_bytes,
)

_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4
"""ggml's token types: text, special, and added by a user; the others have no place in BPE."""


def gguf_vocabulary(metadata: Mapping[str, object]) -> Vocabulary:
    """The vocabulary; raises VocabularyError for what is missing, wrong or of another kind."""
    model = metadata.get("tokenizer.ggml.model")
    if model != "gpt2":
        raise VocabularyError(f"tokenizer.ggml.model is {model!r}; only gpt2 (BPE) is known")
    pre = metadata.get("tokenizer.ggml.pre")
    pattern = GGUF_PATTERNS.get(pre) if isinstance(pre, str) else None
    if pattern is None:
        known = ", ".join(GGUF_PATTERNS)
        raise VocabularyError(f"tokenizer.ggml.pre is {pre!r}; known are {known}")
    texts, kinds = _texts(metadata, "tokens"), _numbers(metadata, "token_type")
    if len(texts) != len(kinds):
        raise VocabularyError("tokenizer.ggml.tokens and token_type differ in length")
    special = [kind in (_CONTROL, _USER_DEFINED) for kind in kinds]
    template = metadata.get("tokenizer.chat_template")
    return Vocabulary(
        tokens=tuple(
            token_bytes(text) if kind == _NORMAL else None
            for text, kind in zip(texts, kinds, strict=True)
        ),
        merged=merge_results(_texts(metadata, "merges")),
        specials={text: at for at, text in enumerate(texts) if special[at] and text},
        pattern=pattern,
        bos_id=_id(metadata, "bos_token_id", len(texts)),
        eos_id=_id(metadata, "eos_token_id", len(texts)),
        begins_with_bos=metadata.get("tokenizer.ggml.add_bos_token") is True,
        template=template if isinstance(template, str) else None,
    )


def _texts(metadata: Mapping[str, object], name: str) -> list[str]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise VocabularyError(f"tokenizer.ggml.{name} is not a list of strings")
    return value


def _numbers(metadata: Mapping[str, object], name: str) -> list[int]:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise VocabularyError(f"tokenizer.ggml.{name} is not a list of integers")
    return value


def _id(metadata: Mapping[str, object], name: str, count: int) -> int | None:
    value = metadata.get(f"tokenizer.ggml.{name}")
    if value is None:
        return None
    if type(value) is not int or not 0 <= value < count:
        raise VocabularyError(f"tokenizer.ggml.{name} is {value!r}, not an id of the vocabulary")
    return value
