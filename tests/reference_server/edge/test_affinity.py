"""Which beginnings of prompts are known."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reference_server.edge.affinity import PrefixMemory, prefix_blocks
from reference_server.edge.balance import Backend, Balancer

SYSTEM = "You are a network engineer. " * 40


def body(question: str, **more: Any) -> bytes:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    return json.dumps({"model": "m", **more, "messages": messages}).encode()


def test_prompts_with_the_same_beginning_share_blocks_whatever_stands_before_the_messages() -> None:
    one, two = prefix_blocks(body("a" * 300)), prefix_blocks(body("b" * 300, max_tokens=7))
    shared = sum(left == right for left, right in zip(one, two, strict=True))
    assert len(one) == 5 and shared == 4


def test_a_body_without_a_prompt_has_no_blocks() -> None:
    assert prefix_blocks(b"") == prefix_blocks(b"x" * 1000) == prefix_blocks(b'"messages"') == ()


@given(left=st.binary(max_size=2000), right=st.binary(max_size=2000))
def test_a_match_never_claims_more_than_what_is_equal(left: bytes, right: bytes) -> None:
    memory = PrefixMemory()
    memory.remember(prefix_blocks(b'"prompt"' + left))
    matched = memory.match(prefix_blocks(b'"prompt"' + right)) * 256
    assert (b'"prompt"' + left)[:matched] == (b'"prompt"' + right)[:matched]


def test_what_was_not_used_for_longest_is_forgotten_from_its_end() -> None:
    memory = PrefixMemory(most=8)
    first, second = prefix_blocks(body("a")), prefix_blocks(b'"prompt"' + b"y" * 256 * 5)
    memory.remember(first)
    memory.remember(second)
    assert memory.match(second) == len(second) == 5
    assert memory.match(first) == 3 and len(first) == 4
    memory.forget()
    assert memory.match(second) == 0


def test_the_backend_that_knows_the_prompt_is_chosen_unless_it_is_much_busier() -> None:
    balancer = Balancer([Backend(name, "127.0.0.1", 1) for name in "ab"])
    idle, knowing = balancer.backends
    blocks = prefix_blocks(body("a"))
    knowing.memory.remember(blocks)
    for outstanding, chosen in ((0, knowing), (2, knowing), (3, idle)):
        knowing.outstanding = outstanding
        assert balancer.pick(blocks=blocks) is chosen
    knowing.outstanding = 0
    knowing.healthy = False
    assert balancer.pick(blocks=blocks) is idle
