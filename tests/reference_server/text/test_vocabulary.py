"""Damaged tokenizers: refused in words, whatever is wrong with them."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reference_server.text.gguf_vocabulary import gguf_vocabulary
from reference_server.text.json_vocabulary import json_vocabulary
from reference_server.text.model_text import ModelText
from reference_server.text.vocabulary import Vocabulary, VocabularyError, token_bytes
from tests.reference_server.text.tiny import gpt2_characters, metadata, tokenizer_json

_ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_SMALL_JSON = tokenizer_json()
_SMALL_JSON["model"]["merges"] = _SMALL_JSON["model"]["merges"][:3]
_SMALL_JSON["model"]["vocab"] = dict(list(_SMALL_JSON["model"]["vocab"].items())[:8])
_SMALL_GGUF = {
    key: value[:8] if isinstance(value, list) else value for key, value in metadata().items()
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document, as the keys that lead there."""
    found = [path] if path else []
    if isinstance(value, dict):
        return found + [p for key in value for p in _places(value[key], (*path, key))]
    if isinstance(value, list):
        return found + [p for at in range(len(value)) for p in _places(value[at], (*path, at))]
    return found


def _damaged(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def _use(read: Vocabulary) -> None:
    ModelText(read).tokenizer.encode("a b\n1")


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(_places(_SMALL_JSON)), _ANYTHING)
def test_any_value_anywhere_in_a_tokenizer_json_is_read_or_refused(
    place: tuple[Any, ...], value: Any
) -> None:
    with contextlib.suppress(VocabularyError):
        _use(json_vocabulary(_damaged(_SMALL_JSON, place, value), {}))


@settings(max_examples=30, deadline=None)
@given(_ANYTHING, _ANYTHING)
def test_any_configuration_is_read_or_refused(bos: Any, template: Any) -> None:
    config = {"bos_token": bos, "chat_template": template}
    with contextlib.suppress(VocabularyError):
        _use(json_vocabulary(_SMALL_JSON, config, None))


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(_places(_SMALL_GGUF)), _ANYTHING)
def test_any_value_anywhere_in_a_gguf_files_metadata_is_read_or_refused(
    place: tuple[Any, ...], value: Any
) -> None:
    with contextlib.suppress(VocabularyError):
        _use(gguf_vocabulary(_damaged(_SMALL_GGUF, place, value)))


def test_gpt2s_characters_stand_for_all_bytes() -> None:
    table = gpt2_characters()
    assert token_bytes("".join(table[byte] for byte in range(256))) == bytes(range(256))
