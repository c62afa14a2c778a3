"""The next token from the logits. Greedy unless asked otherwise."""

from __future__ import annotations

from hashlib import blake2b

import torch
from torch import Tensor

from reference_server.engine.plan import SampledToken, SamplingParams, StepItem


def sample(logits: Tensor, items: list[StepItem]) -> tuple[SampledToken, ...]:
    """A token for each item from its row of `logits`, `(items, vocab)`, float32.

    A row's token depends on that row, the item's parameters and its place in its sequence only.
    """
    best = logits.argmax(-1).tolist()
    return tuple(_sample_row(logits[row], item, best[row]) for row, item in enumerate(items))


def _sample_row(logits: Tensor, item: StepItem, best: int) -> SampledToken:
    params = item.params or SamplingParams()
    token = best
    if params.temperature > 0 and params.top_k != 1:
        place = item.position + len(item.token_ids)
        token = _draw(logits, params, dice(params.seed, place))
    if params.top_logprobs is None:
        return SampledToken(item.sequence_id, token)
    logprobs = torch.log_softmax(logits, -1)
    values, ids = logprobs.topk(min(params.top_logprobs, len(logprobs)))
    top = tuple(zip(ids.tolist(), values.tolist(), strict=True))
    return SampledToken(item.sequence_id, token, logprobs[token].item(), top)


def _draw(logits: Tensor, params: SamplingParams, chance: float) -> int:
    """Top-k, then temperature, then top-p, as in Hugging Face's order of logits warpers."""
    count = params.top_k if 0 < params.top_k < len(logits) else len(logits)
    values, ids = logits.topk(count)
    weights = torch.softmax(values.double() / params.temperature, -1).cumsum(-1)
    # The smallest set that reaches top_p: all whose predecessors have not reached it yet.
    kept = 1 + int((weights[:-1] < params.top_p).sum())
    bound = chance * weights[kept - 1].item()
    return int(ids[min(int(torch.searchsorted(weights, bound, right=True)), kept - 1)])


def dice(seed: int, place: int) -> float:
    """A number from 0 up to, not including, 1; the same for the same seed and place everywhere."""
    data = seed.to_bytes(8, "little", signed=True) + place.to_bytes(8, "little")
    return (int.from_bytes(blake2b(data, digest_size=8).digest(), "little") >> 11) * 2.0**-53
