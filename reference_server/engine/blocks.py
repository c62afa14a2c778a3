"""The KV pool's blocks: who holds which, which may be shared, which is given away next.

After vLLM's block pool: blocks carry a chained hash once all their tokens are computed, keep it
while nobody holds them, and are taken least recently used first. A block without a hash is taken
before any with one.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Sequence


class OutOfBlocks(Exception):
    """Fewer blocks are free than were asked for; none was given."""


def root(salt: str) -> bytes:
    """What the chain of a salt begins with, so that chains of two salts never meet."""
    return hashlib.sha256(b"promptpath.prefix\0" + salt.encode("utf-8", "surrogatepass")).digest()


def chain(parent: bytes, tokens: Sequence[int]) -> bytes:
    """The hash of a block: it stands for its tokens and, through `parent`, for all before them.

    SHA-256, since a collision would give one user another's context; ids are 0..2**32-1.
    """
    return hashlib.sha256(parent + array("I", tokens).tobytes()).digest()


class BlockPool:
    """Reference counts, the free list and the prefix cache over `count` blocks."""

    def __init__(self, count: int) -> None:
        """All blocks are free and empty. Raises ValueError when there is none."""
        if count < 1:
            raise ValueError("the KV pool needs at least one block")
        self.count = count
        self._holders = [0] * count
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(count))
        """The next block to be given away comes first."""
        self._hash_of: dict[int, bytes] = {}
        self._by_hash: dict[bytes, int] = {}

    @property
    def free(self) -> int:
        """Blocks that nobody holds, cached ones included."""
        return len(self._free)

    @property
    def used(self) -> int:
        """Blocks that somebody holds."""
        return self.count - len(self._free)

    @property
    def cached(self) -> int:
        """Blocks that can be found by their hash."""
        return len(self._by_hash)

    def holders(self, block: int) -> int:
        """How many sequences hold a block."""
        return self._holders[block]

    def match(self, hashes: Iterable[bytes]) -> list[int]:
        """The blocks of the longest cached beginning of a chain."""
        found = []
        for digest in hashes:
            block = self._by_hash.get(digest)
            if block is None:
                break
            found.append(block)
        return found

    def free_among(self, blocks: Iterable[int]) -> int:
        """How many of `blocks` nobody holds."""
        return sum(1 for block in blocks if not self._holders[block])

    def share(self, blocks: Iterable[int]) -> None:
        """One holder more for each block; a free one leaves the free list and keeps its content."""
        for block in blocks:
            if not self._holders[block]:
                del self._free[block]
            self._holders[block] += 1

    def allocate(self, count: int) -> list[int]:
        """`count` blocks with one holder each and no content. Raises OutOfBlocks."""
        if count > len(self._free):
            raise OutOfBlocks
        taken = []
        for _ in range(count):
            block, _none = self._free.popitem(last=False)
            self._forget(block)
            self._holders[block] = 1
            taken.append(block)
        return taken

    def release(self, table: Iterable[int]) -> None:
        """One holder fewer for each block of a sequence's table.

        Backwards, so that of a chain the end is given away before its beginning: a beginning
        without its end can still be matched, an end without its beginning cannot.
        """
        for block in reversed(list(table)):
            if self._holders[block] < 1:
                raise ValueError(f"block {block} is free already")
            self._holders[block] -= 1
            if not self._holders[block]:
                self._free[block] = None
                if block not in self._hash_of:
                    self._free.move_to_end(block, last=False)

    def publish(self, block: int, digest: bytes) -> None:
        """A held block is full and computed: let others find it. The first of a hash stays."""
        if digest not in self._by_hash and block not in self._hash_of:
            self._by_hash[digest] = block
            self._hash_of[block] = digest

    def _forget(self, block: int) -> None:
        digest = self._hash_of.pop(block, None)
        if digest is not None:
            del self._by_hash[digest]
