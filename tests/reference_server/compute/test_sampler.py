"""Choosing the next token."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest

from tests.reference_server.compute import torch_needed  # noqa: F401  # isort: skip
import torch

from reference_server.compute.sampler import dice, sample
from reference_server.engine.plan import SampledToken, SamplingParams, StepItem

LOGITS = torch.tensor([math.log(p) for p in (0.4, 0.3, 0.2, 0.1)])


def draw(place: int, logits: torch.Tensor = LOGITS, **params: Any) -> SampledToken:
    """The token number `place` of a sequence."""
    chosen = SamplingParams(**params)
    return sample(logits[None], [StepItem(1, (0,), place - 1, (0,), True, chosen)])[0]


def shares(**params: Any) -> dict[int, float]:
    """How often each token comes in 4,000 draws."""
    count = Counter(draw(place, **params).token_id for place in range(1, 4001))
    return {token: count[token] / 4000 for token in sorted(count)}


def test_the_default_is_the_most_likely_token() -> None:
    assert {draw(place).token_id for place in range(1, 50)} == {0}


def test_temperature_one_draws_by_the_models_probabilities() -> None:
    # Four standard deviations of a share of 4,000 draws are 0.031 at most.
    wanted = {0: 0.4, 1: 0.3, 2: 0.2, 3: 0.1}
    assert shares(temperature=1.0) == pytest.approx(wanted, abs=0.031)


def test_a_higher_temperature_flattens() -> None:
    weights = [math.sqrt(p) for p in (0.4, 0.3, 0.2, 0.1)]
    wanted = {token: weight / sum(weights) for token, weight in enumerate(weights)}
    assert shares(temperature=2.0) == pytest.approx(wanted, abs=0.031)


def test_top_k_keeps_the_k_most_likely() -> None:
    assert shares(temperature=1.0, top_k=2) == pytest.approx({0: 4 / 7, 1: 3 / 7}, abs=0.031)
    assert set(shares(temperature=5.0, top_k=1)) == {0}


@pytest.mark.parametrize(("top_p", "kept"), [(0.05, 1), (0.4, 1), (0.41, 2), (0.7, 2), (0.9, 3)])
def test_top_p_keeps_the_smallest_set_that_reaches_it(top_p: float, kept: int) -> None:
    assert set(shares(temperature=1.0, top_p=top_p - 1e-4)) == set(range(kept))


def test_the_same_seed_and_place_give_the_same_token_and_others_do_not() -> None:
    first = [draw(place, temperature=1.0, seed=5).token_id for place in range(1, 40)]
    assert first == [draw(place, temperature=1.0, seed=5).token_id for place in range(1, 40)]
    assert first != [draw(place, temperature=1.0, seed=6).token_id for place in range(1, 40)]


def test_the_dice_is_even_and_below_one() -> None:
    thrown = [dice(seed, 3) for seed in range(10_000)]
    assert min(thrown) >= 0 and max(thrown) < 1
    assert sum(thrown) / len(thrown) == pytest.approx(0.5, abs=0.012)  # 4 x 0.29 / 100
    assert dice(0, 0) == dice(0, 0) != dice(0, 1)
    assert 0 <= dice(2**63 - 1, 10**9) < 1


def test_log_probabilities_are_those_at_temperature_one() -> None:
    token = draw(1, temperature=0.5, top_logprobs=2)
    assert token.top_logprobs[0][0] == 0 and token.top_logprobs[1][0] == 1
    values = [value for _, value in token.top_logprobs]
    assert values == pytest.approx([math.log(0.4), math.log(0.3)], abs=1e-6)
    wanted = [math.log(p) for p in (0.4, 0.3, 0.2, 0.1)][token.token_id]
    assert token.logprob == pytest.approx(wanted, abs=1e-6)
    assert draw(1).logprob is None
    assert len(draw(1, top_logprobs=20).top_logprobs) == 4
    assert draw(1, top_logprobs=0).top_logprobs == ()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_still_give_a_token_of_the_vocabulary(
    bad: float, temperature: float
) -> None:
    token = draw(1, torch.full((4,), bad), temperature=temperature, top_logprobs=2)
    assert 0 <= token.token_id < 4
