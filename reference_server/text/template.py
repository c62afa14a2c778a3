"""Chat templates: a conversation as the one text that the model was trained on.

A template is a program from the model's file. It runs in Jinja's sandbox, without loaders, clock or
attributes of Python objects. It can still loop for long; a checkpoint is something its user chose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from reference_server.text.prompt import Message, PromptRefused
from reference_server.text.vocabulary import Vocabulary, VocabularyError

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""For a model that has ChatML's special tokens and no template."""
_PRIVATE_USE = range(0xE000, 0xF900)


class ChatTemplate:
    """Renders a conversation to special tokens and the texts between them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Raises VocabularyError when there is no template or it is no valid one."""
        text = vocabulary.template
        if text is None and {"<|im_start|>", "<|im_end|>"} <= vocabulary.specials.keys():
            text = CHATML
        if text is None:
            raise VocabularyError("the model has no chat template")
        # As Hugging Face renders them (transformers, chat_template_utils.py).
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = _refuse
        try:
            self._template = environment.from_string(text)
        except TemplateError as error:
            raise VocabularyError(f"the chat template is not valid: {error}") from None
        self._specials = vocabulary.specials
        names = sorted(vocabulary.specials, key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, names)) or r"(?!)")
        firsts = re.escape("".join({name[:1] for name in names}))
        self._first = re.compile(f"[{firsts}]" if firsts else r"(?!)")
        self._names = {
            "bos_token": vocabulary.name(vocabulary.bos_id),
            "eos_token": vocabulary.name(vocabulary.eos_id),
        }

    def render(self, messages: Sequence[Message]) -> Iterator[int | str]:
        """Ids of special tokens and ordinary texts, in order, ready for the answer.

        Only the template writes special tokens: in a message, `<|im_start|>` stays text. For that
        each place in a message where one could begin is marked before the template runs.
        Raises PromptRefused when the template refuses the conversation.
        """
        mark = _unused_character(messages)
        shown = [
            {
                "role": "system" if message.role == "developer" else message.role,
                "content": self._first.sub(lambda found: found[0] + mark, message.text),
            }
            for message in messages
        ]
        try:
            text = self._template.render(messages=shown, add_generation_prompt=True, **self._names)
        except TemplateError as error:
            raise PromptRefused(f"The model's chat template refuses this: {error}") from None
        except Exception as error:  # A template may do anything that an expression can.
            kind = type(error).__name__
            raise PromptRefused(f"The model's chat template fails ({kind}).") from error
        start = 0
        for found in self._special.finditer(text):
            if found.start() > start:
                yield text[start : found.start()].replace(mark, "")
            yield self._specials[found[0]]
            start = found.end()
        if start < len(text):
            yield text[start:].replace(mark, "")


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _unused_character(messages: Sequence[Message]) -> str:
    """A private-use character that no message contains."""
    used: set[str] = set().union(*(message.text for message in messages))
    for code in _PRIVATE_USE:
        if chr(code) not in used:
            return chr(code)
    raise PromptRefused("The messages contain every private-use character.")
