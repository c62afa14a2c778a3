"""A tiny Llama of random numbers as a GGUF file: the whole engine without a download. No torch.

`python -m reference_server.compute.random_model FILE`. Its tokens are bytes; what it says is noise.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reference_server.compute.gguf import Value

ALIGNMENT = 32
WIDTH, FFN, LAYERS, HEADS, KV_HEADS, CONTEXT = 64, 96, 2, 6, 2, 512
HEAD_DIM = 16
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_GROUP = 32


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor to be written: its shape as torch counts, ggml's type number, its bytes."""

    shape: tuple[int, ...]
    kind: int
    data: bytes


def write_gguf(path: Path, metadata: dict[str, Value], tensors: dict[str, Stored]) -> None:
    """Write a GGUF file, version 3."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += _text(key) + _typed(value)
    body = b""
    for name, tensor in tensors.items():
        head += _text(name) + struct.pack("<I", len(tensor.shape))
        head += struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        head += struct.pack("<IQ", tensor.kind, len(body))
        body += tensor.data + bytes(-len(tensor.data) % ALIGNMENT)
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + body)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _typed(value: Value) -> bytes:
    kind, data = _value(value)
    return struct.pack("<I", kind) + data


def _value(value: Value) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if isinstance(value, str):
        return 8, _text(value)
    kinds = [_value(each) for each in value]
    kind = kinds[0][0] if kinds else 4
    return 9, struct.pack("<IQ", kind, len(value)) + b"".join(data for _, data in kinds)


def float32(shape: tuple[int, ...], numbers: Sequence[float]) -> Stored:
    """A tensor of type F32."""
    return Stored(shape, 0, struct.pack(f"<{len(numbers)}f", *numbers))


def q4_1(rows: int, columns: int, dice: random.Random, scale: float) -> Stored:
    """A random matrix of type Q4_1 with numbers of about `scale`."""
    data = bytearray()
    for _ in range(rows * columns // _GROUP):
        step = scale * dice.uniform(0.15, 0.3)
        data += struct.pack("<ee", step, -7.5 * step) + dice.randbytes(_GROUP // 2)
    return Stored((rows, columns), 3, bytes(data))


def q8_0(rows: int, columns: int, dice: random.Random, scale: float) -> Stored:
    """A random matrix of type Q8_0 with numbers of about `scale`."""
    data = bytearray()
    for _ in range(rows * columns // _GROUP):
        data += struct.pack("<e", scale / 64) + dice.randbytes(_GROUP)
    return Stored((rows, columns), 8, bytes(data))


def byte_tokens() -> list[str]:
    """The 256 bytes as GPT-2's vocabulary writes them (its bytes_to_unicode), then the specials."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = {byte: 256 + at for at, byte in enumerate(b for b in range(256) if b not in plain)}
    return [chr(shifted.get(byte, byte)) for byte in range(256)] + list(SPECIALS)


def metadata() -> dict[str, Value]:
    """Everything a reader wants to know: the sizes and a tokenizer of bytes."""
    tokens = byte_tokens()
    return {
        "general.architecture": "llama",
        "general.name": "promptpath random",
        "general.alignment": ALIGNMENT,
        "llama.block_count": LAYERS,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": FFN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.key_length": HEAD_DIM,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": list(tokens),
        "tokenizer.ggml.token_type": [*[1] * 256, *[3] * len(SPECIALS)],
        "tokenizer.ggml.merges": [],
        "tokenizer.ggml.bos_token_id": 257,
        "tokenizer.ggml.eos_token_id": 258,
    }


def tensors(seed: int) -> dict[str, Stored]:
    """The weights: Q4_1 matrices, a Q8_0 embedding, norms in F32, as in SmolLM2's file."""
    dice = random.Random(seed)
    queries, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    found = {"token_embd.weight": q8_0(256 + len(SPECIALS), WIDTH, dice, 1.0)}
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        found[at + "attn_norm.weight"] = float32((WIDTH,), [1.0] * WIDTH)
        found[at + "attn_q.weight"] = q4_1(queries, WIDTH, dice, 0.3)
        found[at + "attn_k.weight"] = q4_1(keys, WIDTH, dice, 0.3)
        found[at + "attn_v.weight"] = q4_1(keys, WIDTH, dice, 0.3)
        found[at + "attn_output.weight"] = q4_1(WIDTH, queries, dice, 0.3)
        found[at + "ffn_norm.weight"] = float32((WIDTH,), [1.0] * WIDTH)
        found[at + "ffn_gate.weight"] = q4_1(FFN, WIDTH, dice, 0.3)
        found[at + "ffn_up.weight"] = q4_1(FFN, WIDTH, dice, 0.3)
        found[at + "ffn_down.weight"] = q4_1(WIDTH, FFN, dice, 0.3)
    found["output_norm.weight"] = float32((WIDTH,), [1.0] * WIDTH)
    return found


def write_random_model(path: Path, seed: int = 1) -> None:
    """Write the model; the same seed gives the same file."""
    write_gguf(path, metadata(), tensors(seed))


if __name__ == "__main__":
    write_random_model(Path(sys.argv[1]))
