"""The packed vocabulary is the real one, byte for byte."""

from __future__ import annotations

import hashlib
from importlib import resources

import pytest

from promptpath.dialect.tokens import ranks
from promptpath.dialect.tokens.vocabulary import PACKED_SHA256
from promptpath.errors import InternalError


def packed() -> bytes:
    return resources.files("promptpath.dialect.tokens").joinpath("data/o200k_base.xz").read_bytes()


def test_the_package_data_rebuilds_the_original_file() -> None:
    tokens = ranks.unpack(packed(), ranks.O200K_TOKENS, PACKED_SHA256)
    rebuilt = hashlib.sha256(ranks.original(tokens)).hexdigest()
    assert rebuilt == ranks.O200K_SHA256


def test_the_package_data_is_small_and_its_licence_is_beside_it() -> None:
    assert len(packed()) < 850_000
    licence = resources.files("promptpath.dialect.tokens").joinpath("data/LICENSE").read_text()
    assert "MIT License" in licence and "OpenAI" in licence


def test_damaged_package_data_is_named_as_such() -> None:
    with pytest.raises(InternalError, match="damaged") as caught:
        ranks.unpack(packed()[:-1] + b"x", ranks.O200K_TOKENS, PACKED_SHA256)
    assert "install promptpath again" in (caught.value.hint or "")


def test_packing_and_unpacking_give_the_tokens_back() -> None:
    file = b"IQ== 0\nIg== 1\nSGVsbG8= 2\n"
    small = ranks.pack(file)
    tokens = ranks.unpack(small, 3, hashlib.sha256(small).hexdigest())
    assert tokens == [b"!", b'"', b"Hello"]
    assert ranks.original(tokens) == file


def test_ranks_with_a_gap_are_refused() -> None:
    with pytest.raises(ValueError, match="rank 2"):
        ranks.pack(b"IQ== 0\nIg== 2\n")
