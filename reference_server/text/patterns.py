"""How the known tokenizers cut text before merging, each as one regular expression.

A tokenizer of several stages (digits first, then GPT-2's expression on each piece) is written as
one expression with the same cuts, since tiktoken takes one.
"""

from __future__ import annotations

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2 (openai/gpt-2, encoder.py)."""

DIGITS_THEN_GPT2 = (
    r"'s|'t|'re|'ve|'m|'ll|'d|\p{N}| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
)
"""Each digit alone, then GPT-2: SmolLM, StarCoder. The look-ahead differs, for white space before
a digit is the end of its piece; with GPT-2's, 160 of 1,880 test strings came out differently."""

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Llama 3 (its tokenizer.json)."""

QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
"""Qwen 2 (its tokenizer.json): one digit at a time."""

GGUF_PATTERNS = {
    "gpt-2": GPT2,
    "smollm": DIGITS_THEN_GPT2,
    "starcoder": DIGITS_THEN_GPT2,
    "llama-bpe": LLAMA3,
    "llama3": LLAMA3,
    "qwen2": QWEN2,
}
"""By the name in `tokenizer.ggml.pre` (llama.cpp, llama-vocab.cpp)."""
