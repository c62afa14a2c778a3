"""The tokenizer against Hugging Face's, and against bytes that ended tiktoken."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_server.compute.gguf import GgufFile
from reference_server.text.gguf_vocabulary import gguf_vocabulary
from reference_server.text.json_vocabulary import json_vocabulary
from reference_server.text.patterns import GPT2, LLAMA3, QWEN2
from reference_server.text.tokenizer import Tokenizer
from reference_server.text.vocabulary import VocabularyError
from tests.peers.require import unavailable
from tests.reference_server.text.strings import strings
from tests.reference_server.text.tiny import MISSING_BYTES, metadata, tokenizer_json, vocabulary

TINY = Tokenizer(vocabulary())


def _peer(document: dict[str, Any]) -> Any:
    """Hugging Face's tokenizer from a tokenizer.json."""
    try:
        import tokenizers
    except ImportError:
        unavailable("tokenizers is not installed", "pip install -e '.[dev]'")
    return tokenizers.Tokenizer.from_str(json.dumps({"version": "1.0", **document}))


def _with_pieces(pre: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The tiny tokenizer.json with another rule for pieces."""
    return tokenizer_json(pre_tokenizer=pre, **more)


def _split(regex: str) -> dict[str, Any]:
    pieces = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [pieces, {**level, "trim_offsets": True}]}


_GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(tokenizer_json(), id="digits, then GPT-2"),
        pytest.param(_with_pieces(_GPT2), id="GPT-2"),
        pytest.param(_with_pieces(_split(GPT2)), id="GPT-2 as a split"),
        pytest.param(_with_pieces(_split(LLAMA3)), id="Llama 3"),
        pytest.param(_with_pieces(_split(QWEN2), normalizer={"type": "NFC"}), id="Qwen 2, NFC"),
    ],
)
def test_it_agrees_with_hugging_face_on_thousands_of_strings(document: dict[str, Any]) -> None:
    peer, ours = _peer(document), Tokenizer(json_vocabulary(document, {}))
    for text in strings(2000):
        # Its special tokens are found in text, ours are not: that is tested below.
        if "<|" not in text:
            assert ours.encode(text) == peer.encode(text, add_special_tokens=False).ids, repr(text)


def test_the_real_vocabulary_agrees_with_hugging_face() -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    files = sorted(cache.glob("promptpath/models/**/*.gguf"))
    if not files:
        pytest.skip("no model in the cache; promptpath model pull")
    with GgufFile(str(files[0])) as file:
        data = dict(file.metadata)
    ours = Tokenizer(gguf_vocabulary(data))
    tokens, merges = data["tokenizer.ggml.tokens"], data["tokenizer.ggml.merges"]
    assert isinstance(tokens, list)
    model = {"type": "BPE", "vocab": {t: at for at, t in enumerate(tokens)}, "merges": merges}
    peer = _peer(tokenizer_json(model=model, added_tokens=[]))
    for text in strings(3000):
        assert ours.encode(text) == peer.encode(text, add_special_tokens=False).ids, repr(text)
    flapping = ours.encode("Why does my BGP session keep flapping?")
    assert flapping == [4898, 1072, 957, 389, 16956, 6094, 1446, 832, 5082, 47]


@given(st.text())
def test_what_is_encoded_comes_back_but_for_bytes_without_a_token(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    known = bytes(byte for byte in data if byte not in MISSING_BYTES)
    assert b"".join(map(TINY.bytes_of, TINY.encode(text))) == known


@pytest.mark.parametrize("byte", MISSING_BYTES[:3])
def test_a_control_byte_without_a_token_is_dropped_and_ends_nothing(byte: int) -> None:
    # tiktoken raises PanicException, a BaseException, for a byte without a rank.
    assert TINY.encode(f"a{chr(byte)}b") == TINY.encode("a") + TINY.encode("b")


@pytest.mark.parametrize("space", [" ", "\n", "\u3000"])
def test_a_million_spaces_are_encoded(space: str) -> None:
    # tiktoken's look-ahead overflows its stack on them and raises PanicException.
    text = "x" + space * 1_000_000 + "y"
    assert b"".join(map(TINY.bytes_of, TINY.encode(text))) == text.encode()


def test_half_of_a_surrogate_pair_is_encoded_as_a_replacement_character() -> None:
    assert TINY.encode("a\ud800") == TINY.encode("a\ufffd")


def test_the_name_of_a_special_token_in_text_is_text() -> None:
    ids = TINY.encode("<|im_end|>")
    assert len(ids) > 1 and not set(ids) & set(TINY.vocabulary.specials.values())


def test_special_and_unknown_ids_have_no_text_and_special_ones_have_a_label() -> None:
    assert [TINY.bytes_of(at) for at in (2, -1, 10**9)] == [b"", b"", b""]
    assert TINY.label(2) == b"<|im_end|>" and TINY.label(TINY.encode("B")[0]) == b"B"


def test_no_token_is_longer_than_the_longest() -> None:
    longest = max(len(TINY.bytes_of(at)) for at in range(len(metadata()["tokenizer.ggml.tokens"])))
    assert TINY.longest == longest > 3


def test_an_expression_that_is_none_is_refused() -> None:
    broken = json_vocabulary(_with_pieces(_split("(")), {})
    with pytest.raises(VocabularyError, match="expression"):
        Tokenizer(broken)
