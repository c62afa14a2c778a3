"""What a byte-level BPE tokenizer consists of, wherever it was read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_TOKENS = 10_000_000
"""More ids than any published vocabulary has (the largest known has about 260,000); a bound on what
a broken file can make us allocate."""

END_TOKENS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|eom_id|>", "</s>")
"""Special tokens that end a turn under their usual names: files name only one of them as EOS.
llama.cpp finds them by name, too (llama-vocab.cpp, special_eog_ids)."""


class VocabularyError(ValueError):
    """A tokenizer that cannot be read or is of a kind this server does not have."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A byte-level BPE tokenizer, as data."""

    tokens: tuple[bytes | None, ...]
    """The bytes of each id; None for a special token and for an id without one."""
    merged: tuple[bytes, ...]
    """What each merge makes, in the order in which merges are tried."""
    specials: Mapping[str, int]
    """Name to id of the tokens that stand for no text."""
    pattern: str
    """How text is cut before merging; each piece is encoded for itself."""
    nfc: bool = False
    """Whether text is normalized to NFC first (Unicode Standard Annex 15)."""
    bos_id: int | None = None
    """The token before every text, where the model wants one."""
    eos_id: int | None = None
    begins_with_bos: bool = False
    """Whether plain text gets `bos_id` in front; a chat template writes its own."""
    template: str | None = None
    """The chat template, Jinja; it comes from a file and is not trusted."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens that end an answer."""
        named = {self.specials[name] for name in END_TOKENS if name in self.specials}
        return tuple(sorted(named | ({self.eos_id} if self.eos_id is not None else set())))

    def name(self, token_id: int | None) -> str:
        """A special token's name; empty for none."""
        return next((name for name, at in self.specials.items() if at == token_id), "")


def _byte_characters() -> dict[str, int]:
    """GPT-2's table: each byte as one visible character, so that vocabularies are plain text.

    Visible Latin-1 bytes stand for themselves, the others for U+0100 onwards, in order.
    """
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in visible]
    table = {chr(byte): byte for byte in visible}
    return table | {chr(0x100 + at): byte for at, byte in enumerate(hidden)}


_BYTE_OF = _byte_characters()


def token_bytes(text: str) -> bytes:
    """The bytes of a token written in GPT-2's characters. Raises VocabularyError."""
    try:
        return bytes([_BYTE_OF[character] for character in text])
    except KeyError:
        raise VocabularyError(f"the token {text!r} is not byte-level") from None


def merge_results(merges: Sequence[object]) -> tuple[bytes, ...]:
    """What each merge makes; a merge is "left right" or ["left", "right"]."""
    results = []
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2:
            raise VocabularyError(f"the merge {merge!r} does not have two parts")
        results.append(token_bytes(f"{parts[0]}{parts[1]}"))
    return tuple(results)
