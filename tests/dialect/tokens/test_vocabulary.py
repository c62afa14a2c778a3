"""o200k_base: the right ids, offline, bounded work on any text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.dialect.tokens.vocabulary import MAX_SEGMENT_CHARS, cut, o200k_base


def test_the_prompt_of_the_manual_has_its_ten_tokens() -> None:
    ids = o200k_base().encode("Why does my BGP session keep flapping?")
    assert ids == [13903, 2226, 922, 418, 29864, 6223, 3357, 1548, 5041, 30]
    assert o200k_base().count("Why does my BGP session keep flapping?") == 10


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_the_tokens_of_a_text_join_to_the_text(text: str) -> None:
    vocabulary = o200k_base()
    joined = b"".join(vocabulary.token_bytes(token) for token in vocabulary.encode(text))
    assert joined == text.encode()


def test_control_bytes_and_special_tokens_are_text() -> None:
    control = "".join(map(chr, range(0x20))) + "\x7f"
    assert o200k_base().count(control) > 0
    assert 199_999 not in o200k_base().encode("<|endoftext|>")


def test_a_lone_surrogate_is_a_replacement_character() -> None:
    assert o200k_base().encode("\ud800") == o200k_base().encode("\ufffd")


def test_an_id_that_is_no_token_is_refused_and_a_special_one_is_named() -> None:
    assert o200k_base().token_bytes(199_999) == b"<|endoftext|>"
    for wrong in (-1, 10**7):
        with pytest.raises((KeyError, OverflowError)):
            o200k_base().token_bytes(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", " ", "\n", "!?", "\u6f22", "\U0001f600", "aA", "\0"])
def test_a_megabyte_of_one_thing_is_counted(unit: str) -> None:
    assert o200k_base().count(unit * (1_000_000 // len(unit))) > 1000


@given(st.text(" \nab", max_size=60), st.integers(2, 9))
def test_a_cut_text_joins_to_itself_and_no_piece_is_long(text: str, limit: int) -> None:
    pieces = list(cut(text, limit))
    assert "".join(pieces) == text
    assert all(len(piece) <= limit for piece in pieces)


def test_a_long_text_is_cut_before_white_space() -> None:
    text = "word " * MAX_SEGMENT_CHARS
    pieces = list(cut(text))
    assert len(pieces) > 1
    assert all(piece.startswith(" ") for piece in pieces[1:])
    short = "word " * 1000
    assert o200k_base().count(short * 50) == pytest.approx(50 * o200k_base().count(short), rel=1e-3)


def test_the_vocabulary_needs_no_network_and_loads_on_first_use_only() -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise OSError('network')\n"
        "socket.socket.connect = refuse; socket.getaddrinfo = refuse\n"
        "from promptpath.dialect.tokens.sizes import token_sizes\n"
        "import promptpath.dialect.meter, promptpath.dialect.body\n"
        "assert 'tiktoken' not in sys.modules\n"
        "assert token_sizes([b'', b'hello world']) == [b'', bytes([5, 6])]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={"PATH": "/nowhere"})
