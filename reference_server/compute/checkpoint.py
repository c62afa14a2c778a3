"""A model's weights by name, from a GGUF file or a folder of safetensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from reference_server.compute.config import ModelConfig, folder_config, gguf_config
from reference_server.compute.gguf import GgufFile
from reference_server.compute.model_file import BLOCK_BYTES, ModelFileError, TensorInfo
from reference_server.compute.safetensors import SafetensorsFile

GROUP = 32
"""Numbers that share a scale in ggml's Q4_0, Q4_1 and Q8_0."""


@dataclass(frozen=True, slots=True)
class Nibbles:
    """A matrix in four bits, as the file stores it: value = number * scale + minimum."""

    numbers: Tensor
    """uint8, (rows, columns), each 0..15."""
    scale: Tensor
    """float32, (rows, columns / 32)."""
    minimum: Tensor
    """float32, (rows, columns / 32)."""

    def dense(self) -> Tensor:
        """The matrix in float32."""
        rows, columns = self.numbers.shape
        grouped = self.numbers.view(rows, columns // GROUP, GROUP).float()
        return (grouped * self.scale[..., None] + self.minimum[..., None]).view(rows, columns)


Stored = Tensor | Nibbles
"""A dense float32 tensor, or four-bit numbers that a kernel may take as they are."""


class TensorFile(Protocol):
    """What both formats offer."""

    path: str
    tensors: dict[str, TensorInfo]

    def bytes_of(self, info: TensorInfo) -> memoryview:
        """The stored bytes of a tensor."""

    def close(self) -> None:
        """Let go of the file."""


class Checkpoint:
    """An open model: its sizes, and its tensors under GGUF's names.

    Rows of Q and K are in the order of GGUF, where a rotation turns adjacent pairs.
    """

    def __init__(
        self, config: ModelConfig, files: list[TensorFile], names: Mapping[str, str], halves: bool
    ) -> None:
        """`names` leads from GGUF's names to the files'; `halves`: Q and K as in safetensors."""
        self.config = config
        self._files = files
        self._names = names
        self._halves = halves
        self._where = {name: file for file in files for name in file.tensors}

    def __contains__(self, name: str) -> bool:
        return self._names.get(name, name) in self._where

    def tensor(self, name: str, *shape: int) -> Stored:
        """The tensor `name` of GGUF; raises ModelFileError if it is missing or of another shape."""
        stored = self._names.get(name, name)
        file = self._where.get(stored)
        if file is None:
            raise ModelFileError(self._files[0].path, f"the tensor {stored!r} is missing")
        info = file.tensors[stored]
        if info.shape != shape:
            problem = f"{stored!r} has the shape {info.shape}, expected {shape}"
            raise ModelFileError(file.path, problem, info.start)
        value = decode(info, file.bytes_of(info))
        if self._halves and isinstance(value, Tensor) and re.search(r"attn_[qk]\.", name):
            return _adjacent_pairs(value, self.config.head_dim)
        return value

    def dense(self, name: str, *shape: int) -> Tensor:
        """The same in float32."""
        value = self.tensor(name, *shape)
        return value.dense() if isinstance(value, Nibbles) else value

    def close(self) -> None:
        """Let go of the files."""
        for file in self._files:
            file.close()


def _adjacent_pairs(weight: Tensor, head_dim: int) -> Tensor:
    """From rows whose pairs are head_dim / 2 apart to rows whose pairs are neighbours."""
    rows, columns = weight.shape
    heads = weight.view(rows // head_dim, 2, head_dim // 2, columns)
    return heads.transpose(1, 2).reshape(rows, columns)


def decode(info: TensorInfo, data: memoryview) -> Stored:
    """The numbers of a stored tensor (ggml's dequantize_row_q4_0, _q4_1, _q8_0)."""
    plain = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    if (dtype := plain.get(info.kind)) is not None:
        raw = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return raw.view(dtype).view(info.shape).float()
    rows, columns = info.shape
    blocks = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    blocks = blocks.view(rows, columns // GROUP, BLOCK_BYTES[info.kind][1])
    scale = _half(blocks[..., 0:2])
    if info.kind == "Q8_0":
        numbers = blocks[..., 2:].contiguous().view(torch.int8).float()
        return (numbers * scale[..., None]).view(rows, columns)
    if info.kind == "Q4_1":
        minimum, packed = _half(blocks[..., 2:4]), blocks[..., 4:]
    else:
        minimum, packed = scale * -8, blocks[..., 2:]
    numbers = torch.cat((packed & 15, packed >> 4), dim=-1)
    return Nibbles(numbers.reshape(rows, columns), scale, minimum)


def _half(data: Tensor) -> Tensor:
    return data.contiguous().view(torch.float16).float().squeeze(-1)


def open_checkpoint(path: str) -> Checkpoint:
    """Open a GGUF file, or a folder with config.json and safetensors.

    Raises ModelFileError when it is damaged or no Llama, OSError when it cannot be read.
    """
    where = Path(path)
    return _open_folder(where) if where.is_dir() else _open_gguf(path)


def _open_gguf(path: str) -> Checkpoint:
    file = GgufFile(path)
    try:
        config = gguf_config(file)
    except BaseException:
        file.close()
        raise
    return Checkpoint(config, [file], {}, halves=False)


def _open_folder(folder: Path) -> Checkpoint:
    config = folder_config(folder)
    parts = sorted(folder.glob("*.safetensors"))
    if not parts:
        raise ModelFileError(str(folder), "there is no .safetensors file in this folder")
    files: list[TensorFile] = [SafetensorsFile(str(part)) for part in parts]
    return Checkpoint(config, files, _hugging_face_names(config.layers), halves=True)


_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def _hugging_face_names(layers: int) -> dict[str, str]:
    names = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    for layer in range(layers):
        for ours, theirs in _PARTS.items():
            names[f"blk.{layer}.{ours}.weight"] = f"model.layers.{layer}.{theirs}.weight"
    return names
