"""Weights from GGUF and from safetensors, number by number."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import pytest

from tests.reference_server.compute import torch_needed  # noqa: F401  # isort: skip
import torch

from reference_server.compute.checkpoint import Checkpoint, Nibbles, decode, open_checkpoint
from reference_server.compute.model_file import ModelFileError, TensorInfo, stored_size
from reference_server.compute.random_model import Stored, metadata, tensors, write_gguf
from tests.reference_server.compute.folder_model import write_folder
from tests.reference_server.compute.reference import reference_logits


def dense(kind: str, columns: int, data: bytes) -> list[float]:
    """One stored row as numbers."""
    info = TensorInfo("w", (1, columns), kind, 0, len(data))
    value = decode(info, memoryview(data))
    numbers: list[float] = (value.dense() if isinstance(value, Nibbles) else value)[0].tolist()
    return numbers


def test_q4_1_is_number_times_scale_plus_minimum_low_halves_first() -> None:
    data = struct.pack("<ee", 0.5, -2.0) + bytes(range(16, 32))
    low = [(byte & 15) * 0.5 - 2.0 for byte in range(16, 32)]
    high = [(byte >> 4) * 0.5 - 2.0 for byte in range(16, 32)]
    assert dense("Q4_1", 32, data) == low + high


def test_q4_0_is_number_less_eight_times_scale() -> None:
    packed = random.Random(1).randbytes(16)
    expected = [((byte & 15) - 8) * 0.25 for byte in packed]
    expected += [((byte >> 4) - 8) * 0.25 for byte in packed]
    assert dense("Q4_0", 32, struct.pack("<e", 0.25) + packed) == expected


def test_q8_0_is_signed_number_times_scale_block_by_block() -> None:
    numbers = list(range(-32, 32))
    data = b""
    for at, scale in ((0, 0.5), (32, 2.0)):
        data += struct.pack("<e32b", scale, *numbers[at : at + 32])
    assert dense("Q8_0", 64, data) == [n * 0.5 for n in numbers[:32]] + [
        n * 2.0 for n in numbers[32:]
    ]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("F32", struct.pack("<2f", 1.5, -3.25)),
        ("F16", struct.pack("<2e", 1.5, -3.25)),
        ("BF16", struct.pack("<2f", 1.5, -3.25)[2:4] + struct.pack("<f", -3.25)[2:4]),
    ],
)
def test_plain_numbers_come_back(kind: str, data: bytes) -> None:
    assert dense(kind, 2, data) == [1.5, -3.25]
    assert stored_size("f", "w", (1, 2), kind, 0) == len(data)


def test_a_folder_of_safetensors_computes_the_same_as_the_gguf_file(
    random_model: Path, tmp_path: Path
) -> None:
    ours = open_checkpoint(str(random_model))
    write_folder(tmp_path, ours)
    theirs = open_checkpoint(str(tmp_path))
    tokens = [257, 104, 101, 108, 108, 111]
    assert torch.equal(reference_logits(ours, tokens), reference_logits(theirs, tokens))
    ours.close()
    theirs.close()


def test_a_missing_or_misshapen_tensor_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    weights = tensors(1)
    misshapen = weights["blk.1.ffn_up.weight"]
    weights["blk.1.ffn_up.weight"] = Stored(misshapen.shape[::-1], 3, misshapen.data)
    del weights["blk.0.attn_k.weight"]
    write_gguf(path, metadata(), weights)
    checkpoint = open_checkpoint(str(path))
    with pytest.raises(ModelFileError, match=r"'blk\.0\.attn_k\.weight' is missing"):
        checkpoint.tensor("blk.0.attn_k.weight", 32, 64)
    with pytest.raises(ModelFileError, match=r"has the shape \(64, 96\), expected \(96, 64\)"):
        checkpoint.tensor("blk.1.ffn_up.weight", 96, 64)
    checkpoint.close()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("general.architecture", "qwen2", "expected 'llama'"),
        ("llama.block_count", 0, "llama.block_count is 0"),
        ("llama.block_count", 2**31, "llama.block_count is 2147483648"),
        ("llama.rope.freq_base", float("nan"), "freq_base is nan"),
        ("llama.attention.head_count_kv", 4, "do not divide"),
        ("llama.rope.scaling.type", "yarn", "'yarn' is not supported"),
        ("llama.embedding_length", "64", "is '64', expected a whole number"),
    ],
)
def test_sizes_that_make_no_model_are_refused(
    tmp_path: Path, key: str, value: int | float | str, said: str
) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, {**metadata(), key: value}, tensors(1))
    with pytest.raises(ModelFileError, match=said):
        open_checkpoint(str(path))


def test_a_folder_without_weights_or_with_another_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    with pytest.raises(ModelFileError, match="'gpt2', expected 'llama'"):
        open_checkpoint(str(tmp_path))
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelFileError, match="not valid JSON"):
        open_checkpoint(str(tmp_path))


def test_closing_lets_go_of_the_file(random_model: Path) -> None:
    checkpoint: Checkpoint = open_checkpoint(str(random_model))
    kept = checkpoint.dense("output_norm.weight", 64)
    checkpoint.close()
    assert kept.tolist() == [1.0] * 64
