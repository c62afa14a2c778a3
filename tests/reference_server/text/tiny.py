"""A small vocabulary with the traits of SmolLM2's: GPT-2's characters, merges of merges, special
tokens first, and some bytes that have no token."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Any

from reference_server.settings import DEFAULT_TEXT
from reference_server.text.gguf_vocabulary import gguf_vocabulary
from reference_server.text.model_text import ModelText
from reference_server.text.vocabulary import Vocabulary

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MISSING_BYTES = (0x04, 0x06, 0x13, 0xC0, 0xC1, 0xF5, 0xFF)
_TRAINING = (
    DEFAULT_TEXT + " naïve café 中文 中国 😀😀 I'll they're it's\n\n  def f(x):\n        return x\n"
)
_MERGES = 250


def gpt2_characters() -> dict[int, str]:
    """Each byte as GPT-2 writes it, from its own bytes_to_unicode."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in visible}
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + len(table) - len(visible))
    return table


def _train(words: list[list[str]], merges: int) -> list[tuple[str, str]]:
    """Plain BPE: the most frequent pair becomes one, again and again (Sennrich et al. 2016)."""
    learned: list[tuple[str, str]] = []
    while len(learned) < merges:
        pairs = Counter(pair for word in words for pair in pairwise(word))
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        learned.append(best)
        words = [_merge(word, best) for word in words]
    return learned


def _merge(word: list[str], pair: tuple[str, str]) -> list[str]:
    merged: list[str] = []
    for part in word:
        if merged and (merged[-1], part) == pair:
            merged[-1] += part
        else:
            merged.append(part)
    return merged


def metadata() -> dict[str, Any]:
    """The tokenizer as a GGUF file holds it."""
    table = gpt2_characters()
    words = re.findall(r" ?[^\W\d_]+| ?[^\w\s]+|\s+(?!\S)|\s", _TRAINING)
    merges = _train([[table[b] for b in word.encode()] for word in words], _MERGES)
    bytes_ = [table[byte] for byte in range(256) if byte not in MISSING_BYTES]
    made = list(dict.fromkeys(left + right for left, right in merges))
    tokens = [*SPECIALS, *bytes_, *made]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(SPECIALS) + [1] * (len(tokens) - len(SPECIALS)),
        "tokenizer.ggml.merges": [f"{left} {right}" for left, right in merges],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
    }


def tokenizer_json(**more: Any) -> dict[str, Any]:
    """The same as a tokenizer.json, with the ids backwards, so that none is its rank."""
    data = metadata()
    tokens: list[str] = data["tokenizer.ggml.tokens"]
    last = len(tokens) - 1
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": last - at, "content": text, "special": True, **plain}
        for at, text in enumerate(SPECIALS)
    ]
    return {
        "model": {
            "type": "BPE",
            "vocab": {text: last - at for at, text in enumerate(tokens)},
            "merges": data["tokenizer.ggml.merges"],
        },
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
            ],
        },
        **more,
    }


def vocabulary(**more: Any) -> Vocabulary:
    """The vocabulary; `more` replaces metadata."""
    return gguf_vocabulary({**metadata(), **more})


def model_text(template: str | None = None) -> ModelText:
    """The tokenizer with a chat template, ChatML when none is given."""
    return ModelText(vocabulary(**{"tokenizer.chat_template": template}))
