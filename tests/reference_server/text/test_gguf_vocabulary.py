"""The tokenizer in a GGUF file's metadata; damaged ones are refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from reference_server.text.gguf_vocabulary import gguf_vocabulary
from reference_server.text.vocabulary import VocabularyError
from tests.reference_server.text.tiny import SPECIALS, metadata, vocabulary


def test_tokens_specials_and_ends_are_read() -> None:
    read = vocabulary()
    assert dict(read.specials) == {name: at for at, name in enumerate(SPECIALS)}
    assert read.tokens[:3] == (None, None, None) and read.tokens[3] == b"\x00"
    assert read.stop_ids == (0, 2) and read.name(read.eos_id) == "<|im_end|>"
    assert read.name(None) == ""
    assert not read.begins_with_bos and read.template is None


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model": "llama"}, "only gpt2"),
        ({"model": None}, "only gpt2"),
        ({"pre": "command-r"}, "known are gpt-2"),
        ({"pre": ["smollm"]}, "known are"),
        ({"tokens": None}, "tokens is not a list"),
        ({"tokens": [1, 2]}, "tokens is not a list of strings"),
        ({"token_type": [3]}, "differ in length"),
        ({"token_type": [True]}, "not a list of integers"),
        ({"merges": "a b"}, "merges is not a list"),
        ({"merges": ["ab"]}, "does not have two parts"),
        ({"merges": ["a b c"]}, "does not have two parts"),
        ({"merges": ["a \u4e2d"]}, "not byte-level"),
        ({"eos_token_id": 10**9}, "not an id"),
        ({"bos_token_id": "1"}, "not an id"),
    ],
)
def test_what_is_missing_or_wrong_is_named(change: dict[str, Any], word: str) -> None:
    data = {**metadata(), **{f"tokenizer.ggml.{name}": value for name, value in change.items()}}
    with pytest.raises(VocabularyError, match=word):
        gguf_vocabulary(data)


def test_a_token_that_is_not_byte_level_is_refused() -> None:
    data = metadata()
    data["tokenizer.ggml.tokens"][5] = "中"
    with pytest.raises(VocabularyError, match="not byte-level"):
        gguf_vocabulary(data)
