"""A GGUF checkpoint written once more, as Hugging Face stores one: config.json and safetensors."""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from reference_server.compute.checkpoint import Checkpoint

PARTS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def write_folder(folder: Path, checkpoint: Checkpoint) -> None:
    """config.json and model.safetensors in `folder`; rows of Q and K in Hugging Face's order."""
    config = checkpoint.config
    width, ffn = config.width, config.ffn
    queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
    shapes = {
        "attn_q": (queries, width),
        "attn_k": (keys, width),
        "attn_v": (keys, width),
        "attn_output": (width, queries),
        "ffn_gate": (ffn, width),
        "ffn_up": (ffn, width),
        "ffn_down": (width, ffn),
    }
    found = {
        "model.embed_tokens.weight": checkpoint.dense("token_embd.weight", config.vocab, width),
        "model.norm.weight": checkpoint.dense("output_norm.weight", width),
    }
    for layer in range(config.layers):
        at, theirs = f"blk.{layer}.", f"model.layers.{layer}."
        found[theirs + "input_layernorm.weight"] = checkpoint.dense(at + "attn_norm.weight", width)
        norm = checkpoint.dense(at + "ffn_norm.weight", width)
        found[theirs + "post_attention_layernorm.weight"] = norm
        for ours, name in PARTS.items():
            weight = checkpoint.dense(f"{at}{ours}.weight", *shapes[ours])
            if ours in ("attn_q", "attn_k"):
                weight = halves(weight, config.head_dim)
            found[f"{theirs}{name}.weight"] = weight
    (folder / "model.safetensors").write_bytes(safetensors(found))
    document = {
        "model_type": "llama",
        "num_hidden_layers": config.layers,
        "hidden_size": width,
        "intermediate_size": ffn,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.context,
        "vocab_size": config.vocab,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.norm_eps,
    }
    (folder / "config.json").write_text(json.dumps(document))


def halves(weight: Tensor, head_dim: int) -> Tensor:
    """From pairs of neighbouring rows to pairs that are half a head apart."""
    rows, columns = weight.shape
    pairs = weight.view(rows // head_dim, head_dim // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns)


def safetensors(tensors: dict[str, Tensor]) -> bytes:
    """A safetensors file of float32 tensors."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, tensor in tensors.items():
        data = bytes(tensor.contiguous().untyped_storage())
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        body += data
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + bytes(body)
