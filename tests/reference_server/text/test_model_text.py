"""From a conversation to token ids."""

from __future__ import annotations

import pytest

from reference_server.text.model_text import ModelText
from reference_server.text.prompt import Message, PromptRefused, PromptTooLong
from tests.reference_server.text.tiny import model_text, vocabulary

QUESTION = "Why does my BGP session keep flapping?"


def test_a_conversation_is_its_template_in_tokens() -> None:
    text = model_text()
    encode = text.tokenizer.encode
    prompt = text.chat([Message("user", (QUESTION, "Hm."))], 1000)
    user, newline = encode(f"user\n{QUESTION}\nHm."), encode("\n")
    assert list(prompt.ids) == [1, *user, 2, *newline, 1, *encode("assistant\n")]
    assert prompt.count == len(prompt.ids)


def test_plain_text_gets_no_template_and_a_begin_token_where_the_model_wants_one() -> None:
    text = model_text()
    assert list(text.plain(QUESTION, 100).ids) == text.tokenizer.encode(QUESTION)
    with_bos = ModelText(vocabulary(**{"tokenizer.ggml.add_bos_token": True}))
    assert with_bos.plain("x", 100).ids == (1, *text.tokenizer.encode("x"))
    assert with_bos.plain("", 100).ids == (1,)


def test_the_limit_is_exact() -> None:
    text = model_text()
    count = text.plain(QUESTION, 1000).count
    assert text.plain(QUESTION, count).count == count
    with pytest.raises(PromptTooLong):
        text.plain(QUESTION, count - 1)
    with pytest.raises(PromptTooLong):
        text.chat([Message("user", (QUESTION,))], count)


def test_what_cannot_fit_is_refused_before_it_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    text = model_text()
    encoded: list[str] = []
    monkeypatch.setattr(text.tokenizer, "encode", encoded.append)
    with pytest.raises(PromptTooLong):
        text.plain("x" * (text.tokenizer.longest * 10 + 1), 10)
    with pytest.raises(PromptTooLong):
        text.chat([Message("user", ("x" * (text.tokenizer.longest * 10 + 1),))], 10)
    assert not encoded


@pytest.mark.parametrize("prompt", ["", "\x04"])
def test_a_prompt_without_a_token_is_refused(prompt: str) -> None:
    with pytest.raises(PromptRefused, match="no token"):
        model_text().plain(prompt, 10)


def test_answers_end_at_the_models_own_tokens_and_at_the_stop_texts() -> None:
    text = model_text()
    assert text.stop_ids == (0, 2)
    answer = text.answer(("keep",))
    assert "".join(map(answer.push, text.tokenizer.encode(QUESTION))) == "Why does my BGP session "
