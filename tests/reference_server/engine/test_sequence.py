"""What a sequence says about itself."""

from __future__ import annotations

from reference_server.engine.blocks import chain, root
from reference_server.engine.plan import BLOCK_TOKENS
from reference_server.engine.sequence import Sequence
from tests.reference_server.engine.rig import request


def test_counts_follow_its_tokens() -> None:
    sequence = Sequence(0, request("a", range(20), 9), BLOCK_TOKENS, 9)
    assert (sequence.prompt_count, sequence.output_count, sequence.pending) == (20, 0, 20)
    assert sequence.owed == 2
    sequence.table, sequence.computed = [7, 3], 20
    sequence.tokens += [1] * 13
    assert (sequence.output_count, sequence.pending, sequence.owed) == (13, 13, 1)


def test_its_hashes_are_chained_from_its_salt_and_made_once() -> None:
    sequence = Sequence(0, request("a", range(40), 9, cache_salt="s"), BLOCK_TOKENS, 9)
    first = chain(root("s"), range(16))
    assert sequence.hashes(1) == [first]
    assert sequence.hashes(2) == [first, chain(first, range(16, 32))]
    assert sequence.hashes(0) == []
