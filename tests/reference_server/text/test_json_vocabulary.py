"""The tokenizer of a checkpoint folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reference_server.text.json_vocabulary import folder_vocabulary, json_vocabulary
from reference_server.text.tokenizer import Tokenizer
from reference_server.text.vocabulary import VocabularyError
from tests.reference_server.text.tiny import tokenizer_json, vocabulary


def _folder(path: Path, **files: object) -> Path:
    for name, value in files.items():
        (path / f"{name}.json").write_text(json.dumps(value))
    return path


def test_a_folder_says_the_same_as_a_gguf_file(tmp_path: Path) -> None:
    config = {"bos_token": "<|im_start|>", "eos_token": {"content": "<|im_end|>"}}
    read = folder_vocabulary(_folder(tmp_path, tokenizer=tokenizer_json(), tokenizer_config=config))
    last = len(read.tokens) - 1
    assert (read.bos_id, read.eos_id, read.stop_ids) == (last - 1, last - 2, (last - 2, last))
    ours, other = Tokenizer(read), Tokenizer(vocabulary())
    text = "Why does my BGP session keep flapping? 123"
    assert ours.encode(text) == [last - at for at in other.encode(text)]


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_begin_token_may_stand_in_the_post_processor(wrapped: bool) -> None:
    first = {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}
    step = {"type": "TemplateProcessing", "single": [first, {"Sequence": {"id": "A"}}]}
    level = {"type": "ByteLevel", "trim_offsets": False}
    post = {"type": "Sequence", "processors": [level, step]} if wrapped else step
    read = json_vocabulary(tokenizer_json(post_processor=post), {})
    assert read.begins_with_bos and read.name(read.bos_id) == "<|im_start|>"
    assert not json_vocabulary(tokenizer_json(post_processor=level), {}).begins_with_bos


def test_merges_may_be_pairs() -> None:
    document = tokenizer_json()
    document["model"]["merges"] = [merge.split(" ") for merge in document["model"]["merges"]]
    assert json_vocabulary(document, {}).merged == json_vocabulary(tokenizer_json(), {}).merged


@pytest.mark.parametrize(
    "value", ["T", [{"name": "tool_use", "template": "X"}, {"name": "default", "template": "T"}]]
)
def test_the_template_stands_in_the_configuration(tmp_path: Path, value: object) -> None:
    config = {"chat_template": value, "add_bos_token": True}
    read = folder_vocabulary(_folder(tmp_path, tokenizer=tokenizer_json(), tokenizer_config=config))
    assert read.template == "T" and read.begins_with_bos


def test_a_template_file_goes_before_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("F")
    config = {"chat_template": "T"}
    read = folder_vocabulary(_folder(tmp_path, tokenizer=tokenizer_json(), tokenizer_config=config))
    assert read.template == "F"


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00", "[" * 100_000])
def test_a_broken_file_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(VocabularyError, match=r"tokenizer\.json"):
        folder_vocabulary(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"tokenizer\.json cannot be read"):
        folder_vocabulary(tmp_path)


_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
_CUT = {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Isolated"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"model": {"type": "Unigram"}}, "no byte-level BPE"),
        ({"model": {"type": "BPE", "vocab": {}, "merges": [], "byte_fallback": True}}, "no byte"),
        ({"model": {"type": "BPE", "vocab": {}}}, "is missing"),
        ({"model": {"type": "BPE", "vocab": {"a": 10**12}, "merges": []}}, "in range"),
        ({"model": {"type": "BPE", "vocab": {"a": "0"}, "merges": []}}, "in range"),
        ({"added_tokens": [{"id": -1, "content": "x"}]}, "added token"),
        ({"added_tokens": [5]}, "added token"),
        ({"added_tokens": [{"id": 1, "content": ""}]}, "added token"),
        ({"added_tokens": True}, "not a list"),
        ({"normalizer": {"type": "Lowercase"}}, "normalizer"),
        ({"pre_tokenizer": None}, "pre_tokenizer"),
        ({"pre_tokenizer": {"type": "Metaspace"}}, "pre_tokenizer"),
        ({"pre_tokenizer": {**_LEVEL, "add_prefix_space": True}}, "pre_tokenizer"),
        ({"pre_tokenizer": {"pretokenizers": [{**_CUT, "invert": True}, _LEVEL]}}, "pre_tok"),
        ({"pre_tokenizer": {"pretokenizers": [_CUT, _CUT, _LEVEL]}}, "pre_tokenizer"),
    ],
)
def test_another_kind_of_tokenizer_is_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(VocabularyError, match=word):
        json_vocabulary(tokenizer_json(**change), {})
