"""The KV pool's blocks."""

from __future__ import annotations

import pytest

from reference_server.engine.blocks import BlockPool, OutOfBlocks, chain, root


def test_blocks_are_given_once_and_come_back() -> None:
    pool = BlockPool(3)
    taken = pool.allocate(3)
    assert sorted(taken) == [0, 1, 2] and (pool.free, pool.used) == (0, 3)
    with pytest.raises(OutOfBlocks):
        pool.allocate(1)
    pool.release(taken)
    assert pool.free == 3


def test_too_large_a_wish_takes_nothing() -> None:
    pool = BlockPool(2)
    with pytest.raises(OutOfBlocks):
        pool.allocate(3)
    assert pool.free == 2


def test_a_block_is_free_when_its_last_holder_lets_go() -> None:
    pool = BlockPool(1)
    (block,) = pool.allocate(1)
    pool.share([block])
    pool.release([block])
    assert (pool.free, pool.holders(block)) == (0, 1)
    pool.release([block])
    assert pool.free == 1
    with pytest.raises(ValueError, match="free already"):
        pool.release([block])


def test_a_published_block_is_found_while_held_and_while_free() -> None:
    pool = BlockPool(2)
    digest = chain(root(""), [1, 2])
    (block,) = pool.allocate(1)
    assert pool.match([digest]) == []
    pool.publish(block, digest)
    assert pool.match([digest]) == [block]
    pool.release([block])
    assert pool.match([digest]) == [block]
    pool.share([block])
    assert (pool.free, pool.used) == (1, 1)


def test_a_match_ends_at_the_first_block_that_is_missing() -> None:
    pool = BlockPool(3)
    digests = [b"a", b"b", b"c"]
    first, _, third = pool.allocate(3)
    pool.publish(first, b"a")
    pool.publish(third, b"c")
    assert pool.match(digests) == [first]


def test_empty_blocks_go_first_then_the_least_recently_used() -> None:
    pool = BlockPool(4)
    a, b, c, d = pool.allocate(4)
    for block, digest in ((a, b"a"), (b, b"b"), (c, b"c")):
        pool.publish(block, digest)
    pool.release([b])
    pool.release([a])
    pool.release([c])
    pool.release([d])
    assert pool.allocate(4) == [d, b, a, c]
    assert pool.match([b"a"]) == [] and pool.cached == 0


def test_the_end_of_a_chain_is_given_away_before_its_beginning() -> None:
    pool = BlockPool(2)
    table = pool.allocate(2)
    pool.publish(table[0], b"0")
    pool.publish(table[1], b"1")
    pool.release(table)
    assert pool.allocate(1) == [table[1]]
    assert pool.match([b"0", b"1"]) == [table[0]]


def test_of_two_equal_blocks_the_first_stays_the_one_that_is_found() -> None:
    pool = BlockPool(2)
    first, second = pool.allocate(2)
    pool.publish(first, b"x")
    pool.publish(second, b"x")
    assert pool.match([b"x"]) == [first]
    pool.release([second])
    assert pool.allocate(1) == [second]
    assert pool.match([b"x"]) == [first]


def test_a_chain_depends_on_all_before_it_and_on_the_salt() -> None:
    tokens = [1, 2, 3]
    assert chain(root("a"), tokens) != chain(root("b"), tokens)
    assert chain(chain(root(""), [1]), tokens) != chain(chain(root(""), [2]), tokens)
    assert root("\ud800") != root("")


def test_a_pool_needs_a_block() -> None:
    with pytest.raises(ValueError, match="at least one"):
        BlockPool(0)
