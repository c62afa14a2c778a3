"""The shape of a Llama model, from GGUF metadata or from a config.json. No torch here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reference_server.compute.gguf import GgufFile
from reference_server.compute.model_file import ModelFileError


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Llama 3.1's stretching of the slow rotations (`rope_type: llama3` in a config.json)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes of a decoder. All are at least 1."""

    name: str
    layers: int
    width: int
    """Numbers in a token's vector."""
    ffn: int
    """Width of the feed-forward part."""
    heads: int
    kv_heads: int
    """Heads of keys and values; each serves heads / kv_heads query heads."""
    head_dim: int
    context: int
    """Longest sequence, in tokens."""
    vocab: int
    rope_theta: float
    norm_eps: float
    rope_scaling: RopeScaling | None = None

    @property
    def group(self) -> int:
        """Query heads that share one head of keys and values."""
        return self.heads // self.kv_heads


_LARGEST = 1 << 24
"""A size beyond this is damage: the largest Llama has 128,256 tokens and 53,248 ffn columns."""


class _Reader:
    def __init__(self, path: str, values: Mapping[str, object]) -> None:
        self._path = path
        self._values = values

    def fail(self, problem: str) -> ModelFileError:
        return ModelFileError(self._path, problem)

    def size(self, key: str, default: int | None = None) -> int:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
            raise self.fail(f"{key} is {value!r}, expected a whole number from 1 to {_LARGEST}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self._values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(f"{key} is {value!r}, expected a number")
        if not math.isfinite(value) or value <= 0:
            raise self.fail(f"{key} is {value!r}, expected a number above 0")
        return float(value)


def read_config(path: str) -> ModelConfig:
    """The sizes of a GGUF file's or a folder's model. Raises ModelFileError, OSError."""
    if Path(path).is_dir():
        return folder_config(Path(path))
    with GgufFile(path) as file:
        return gguf_config(file)


def gguf_config(file: GgufFile) -> ModelConfig:
    """The sizes as llama.cpp's converter writes them. Raises ModelFileError."""
    path, metadata = file.path, file.metadata
    read = _Reader(path, metadata)
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise read.fail("token_embd.weight, a matrix, is missing")
    if "rope_freqs.weight" in file.tensors:
        raise read.fail("rope_freqs.weight (Llama 3.1's rope) is not supported in GGUF")
    if (architecture := metadata.get("general.architecture")) != "llama":
        raise read.fail(f"the architecture is {architecture!r}, expected 'llama'")
    if (scaling := metadata.get("llama.rope.scaling.type")) not in (None, "none"):
        raise read.fail(f"rope scaling {scaling!r} is not supported")
    heads = read.size("llama.attention.head_count")
    width = read.size("llama.embedding_length")
    head_dim = read.size("llama.attention.key_length", width // heads)
    if (rotated := read.size("llama.rope.dimension_count", head_dim)) != head_dim:
        raise read.fail(f"llama.rope.dimension_count is {rotated}, expected {head_dim}")
    name = metadata.get("general.name")
    return _checked(
        read,
        ModelConfig(
            name=name if isinstance(name, str) else "llama",
            layers=read.size("llama.block_count"),
            width=width,
            ffn=read.size("llama.feed_forward_length"),
            heads=heads,
            kv_heads=read.size("llama.attention.head_count_kv", heads),
            head_dim=head_dim,
            context=read.size("llama.context_length"),
            vocab=embedding.shape[0],
            rope_theta=read.number("llama.rope.freq_base", 10_000.0),
            norm_eps=read.number("llama.attention.layer_norm_rms_epsilon"),
        ),
    )


def folder_config(folder: Path) -> ModelConfig:
    """The sizes in Hugging Face's config.json. Raises ModelFileError, OSError."""
    path = str(folder / "config.json")
    values = _json(path)
    read = _Reader(path, values)
    if (kind := values.get("model_type")) != "llama":
        raise read.fail(f"model_type is {kind!r}, expected 'llama'")
    for key in ("attention_bias", "mlp_bias"):
        if values.get(key):
            raise read.fail(f"{key} is not supported")
    if (activation := values.get("hidden_act", "silu")) != "silu":
        raise read.fail(f"hidden_act {activation!r} is not supported")
    heads, width = read.size("num_attention_heads"), read.size("hidden_size")
    return _checked(
        read,
        ModelConfig(
            name="llama",
            layers=read.size("num_hidden_layers"),
            width=width,
            ffn=read.size("intermediate_size"),
            heads=heads,
            kv_heads=read.size("num_key_value_heads", heads),
            head_dim=read.size("head_dim", width // heads),
            context=read.size("max_position_embeddings", 2048),
            vocab=read.size("vocab_size"),
            rope_theta=read.number("rope_theta", 10_000.0),
            norm_eps=read.number("rms_norm_eps", 1e-6),
            rope_scaling=_scaling(path, values.get("rope_scaling")),
        ),
    )


def _json(path: str) -> dict[str, object]:
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise ModelFileError(path, "not valid JSON", 0) from None
    if not isinstance(value, dict):
        raise ModelFileError(path, "not a JSON object", 0)
    return value


def _scaling(path: str, value: object) -> RopeScaling | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ModelFileError(path, "rope_scaling is no object")
    kind = value.get("rope_type", value.get("type"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise ModelFileError(path, f"rope scaling {kind!r} is not supported")
    read = _Reader(path, value)
    return RopeScaling(
        factor=read.number("factor"),
        low_freq_factor=read.number("low_freq_factor"),
        high_freq_factor=read.number("high_freq_factor"),
        original_context=read.size("original_max_position_embeddings"),
    )


def _checked(read: _Reader, config: ModelConfig) -> ModelConfig:
    if config.heads % config.kv_heads:
        raise read.fail(f"{config.heads} heads do not divide among {config.kv_heads} KV heads")
    if config.head_dim % 2:
        raise read.fail(f"a head of {config.head_dim} numbers cannot be rotated in pairs")
    return config
