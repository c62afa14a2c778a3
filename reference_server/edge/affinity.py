"""Which prompts a backend has seen: a prompt goes where its beginning is in the cache. Pure.

A replica's prefix cache is its own: the same system prompt computed by each of four replicas costs
four prefills. The edge does not tokenize; it compares the bytes of the request from its messages
on. Equal bytes are equal tokens, so a match is never wrong, only missed when a client writes the
same messages in another way.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

_BLOCK_BYTES = 256
"""Some 64 tokens, four blocks of the KV cache. A choice."""
_MOST_BLOCKS = 256
"""Blocks compared of one prompt. A choice."""
_REMEMBERED = 16_384
"""Blocks remembered of one backend; some 2 MB. A choice."""
_STARTS = (b'"messages"', b'"input"', b'"prompt"')


def prefix_blocks(body: bytes) -> tuple[bytes, ...]:
    """A chained hash for each whole block of the prompt's bytes: equal up to a block exactly when
    all bytes before its end are equal. None for a body without a prompt."""
    found = [at for start in _STARTS if (at := body.find(start)) >= 0]
    if not found:
        return ()
    hashes: list[bytes] = []
    parent = b""
    start = min(found)
    end = min(len(body) - _BLOCK_BYTES + 1, start + _MOST_BLOCKS * _BLOCK_BYTES)
    for at in range(start, end, _BLOCK_BYTES):
        block = body[at : at + _BLOCK_BYTES]
        parent = hashlib.blake2b(parent + block, digest_size=16).digest()
        hashes.append(parent)
    return tuple(hashes)


class PrefixMemory:
    """The blocks that one backend was sent, the latest used kept."""

    def __init__(self, most: int = _REMEMBERED) -> None:
        self._most = most
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def match(self, blocks: Sequence[bytes]) -> int:
        """How many of the first blocks it has seen."""
        for count, block in enumerate(blocks):
            if block not in self._blocks:
                return count
        return len(blocks)

    def remember(self, blocks: Sequence[bytes]) -> None:
        """It was sent these. The first ones are forgotten last: without them the rest is no use."""
        for block in reversed(blocks):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._most:
            self._blocks.popitem(last=False)

    def forget(self) -> None:
        """It was started anew, with an empty cache."""
        self._blocks.clear()
