"""A model's tokenizer and chat template, as the API uses them."""

from __future__ import annotations

from collections.abc import Sequence

from reference_server.text.answer import Answer
from reference_server.text.prompt import Message, Prompt, PromptRefused, PromptTooLong
from reference_server.text.template import ChatTemplate
from reference_server.text.tokenizer import Tokenizer
from reference_server.text.vocabulary import Vocabulary


class ModelText:
    """A `text.prompt.PromptText` over a model's own vocabulary."""

    description = "the model's own byte-level BPE"

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Raises VocabularyError."""
        self.tokenizer = Tokenizer(vocabulary)
        self._template = ChatTemplate(vocabulary)
        self.stop_ids = vocabulary.stop_ids

    def chat(self, messages: Sequence[Message], limit: int) -> Prompt:
        """The conversation through the template. Raises PromptTooLong, PromptRefused."""
        self._check_size(sum(len(message.text) for message in messages), limit)
        ids: list[int] = []
        for part in self._template.render(messages):
            ids += [part] if isinstance(part, int) else self.tokenizer.encode(part)
        return _prompt(ids, limit)

    def plain(self, text: str, limit: int) -> Prompt:
        """The text, behind the begin token if the model wants one. Raises PromptTooLong,
        PromptRefused."""
        self._check_size(len(text), limit)
        vocabulary = self.tokenizer.vocabulary
        ids = self.tokenizer.encode(text)
        if vocabulary.begins_with_bos and vocabulary.bos_id is not None:
            ids.insert(0, vocabulary.bos_id)
        return _prompt(ids, limit)

    def answer(self, stops: tuple[str, ...]) -> Answer:
        """The text of one answer, as its tokens come."""
        return Answer(self.tokenizer, stops)

    def _check_size(self, characters: int, limit: int) -> None:
        """Refuse what cannot fit before time is spent on it: a character is a byte at least."""
        if characters > limit * self.tokenizer.longest:
            raise PromptTooLong


def _prompt(ids: list[int], limit: int) -> Prompt:
    if len(ids) > limit:
        raise PromptTooLong
    if not ids:
        raise PromptRefused("The prompt has no token.")
    return Prompt(len(ids), tuple(ids))
