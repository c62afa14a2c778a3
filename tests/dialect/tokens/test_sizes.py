"""Token sizes, and how they cross a pipe."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.dialect.tokens.sizes import pack, token_sizes, unpack


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_what_was_packed_is_unpacked(parts: list[bytes]) -> None:
    assert unpack(pack(parts)) == parts


@pytest.mark.parametrize("data", [b"\0", b"\0\0\0\5abcd", b"\0\0\0\1ab"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="announced"):
        unpack(data)


@given(st.text())
def test_the_sizes_of_the_tokens_add_up_to_the_text(text: str) -> None:
    data = text.encode("utf-8", "replace")
    assert sum(token_sizes([data])[0]) == len(data)


def test_the_module_answers_on_its_standard_output() -> None:
    texts = [b"", b"Why does my BGP session keep flapping?", "\u00e9t\u00e9".encode()]
    line = [sys.executable, "-P", "-m", "promptpath.dialect.tokens"]
    done = subprocess.run(line, input=pack(texts), capture_output=True, check=True, timeout=60)
    assert unpack(done.stdout) == token_sizes(texts)
    assert len(unpack(done.stdout)[1]) == 10
