"""Log probabilities in the two shapes that OpenAI's formats have for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reference_server.engine.generation import TokenLogprob


def chat_form(logprobs: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    """Chat's: one entry a token, bytes beside the text. None when nothing was asked for."""
    if not logprobs:
        return None
    content = [
        {
            **_entry(each.token, each.logprob),
            "top_logprobs": [_entry(token, logprob) for token, logprob in each.top],
        }
        for each in logprobs
    ]
    return {"content": content, "refusal": None}


def completions_form(logprobs: Sequence[TokenLogprob], offset: int) -> dict[str, Any] | None:
    """The older one: parallel lists. `offset`: characters of the answer before the first token.

    None when nothing was asked for. Of two alternatives with the same text one is left, as the
    shape has it.
    """
    if not logprobs:
        return None
    texts = [_text(each.token) for each in logprobs]
    offsets = [offset + sum(map(len, texts[:at])) for at in range(len(texts))]
    return {
        "tokens": texts,
        "token_logprobs": [each.logprob for each in logprobs],
        "top_logprobs": [
            {_text(token): logprob for token, logprob in each.top} for each in logprobs
        ],
        "text_offset": offsets,
    }


def _entry(token: bytes, logprob: float) -> dict[str, Any]:
    return {"token": _text(token), "logprob": logprob, "bytes": list(token)}


def _text(token: bytes) -> str:
    """A token need not be whole characters; OpenAI then writes its bytes so."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)
