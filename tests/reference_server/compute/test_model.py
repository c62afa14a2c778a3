"""The model against the reference forward pass."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.reference_server.compute import torch_needed  # noqa: F401  # isort: skip
import torch

from reference_server.compute.checkpoint import open_checkpoint
from reference_server.compute.config import ModelConfig, RopeScaling
from reference_server.compute.model import Llama, Mode
from reference_server.compute.rope import rotate_, rotations
from reference_server.compute.runner import make_runner
from reference_server.engine.plan import SamplingParams, StepItem, StepPlan
from tests.reference_server.compute.reference import reference_logits

TOKENS = (257, 87, 104, 121, 32, 100, 111, 101, 115, 32, 109, 121, 32, 66, 71, 80, 32, 102, 108)


def logprobs(path: Path, mode: Mode, chunks: list[tuple[int, ...]]) -> list[float]:
    """Every token's log probability after the chunks, computed one after the other."""
    checkpoint = open_checkpoint(str(path))
    runner = make_runner(Llama(checkpoint, mode), 8, lambda: 0, exact=mode == "exact")
    checkpoint.close()
    params = SamplingParams(top_logprobs=1000)
    position = 0
    for chunk in chunks:
        item = StepItem(1, chunk, position, (5, 2, 7), True, params)
        result = runner.execute(StepPlan((item,)))
        position += len(chunk)
    return [value for _, value in sorted(result.sampled[0].top_logprobs)]


def expected(path: Path) -> torch.Tensor:
    """The same by the reference."""
    checkpoint = open_checkpoint(str(path))
    logits = reference_logits(checkpoint, list(TOKENS))[-1]
    checkpoint.close()
    return logits.log_softmax(-1)


@pytest.mark.parametrize("mode", ["fp32", "exact"])
@pytest.mark.parametrize("cut", [0, 1, 7, 16, 18])
def test_float32_gives_the_references_probabilities_however_the_prompt_is_cut(
    random_model: Path, mode: Mode, cut: int
) -> None:
    chunks = [part for part in (TOKENS[:cut], TOKENS[cut:]) if part]
    got = torch.tensor(logprobs(random_model, mode, chunks))
    # DESIGN: the paged float32 path is within 1e-4 of the unpaged reference.
    assert (got - expected(random_model)).abs().max() <= 1e-4


def test_token_by_token_gives_the_same_as_all_at_once(random_model: Path) -> None:
    got = torch.tensor(logprobs(random_model, "fp32", [(token,) for token in TOKENS]))
    assert (got - expected(random_model)).abs().max() <= 1e-4


@pytest.mark.parametrize("cut", [0, 1, 18])
def test_the_fast_mode_stays_near_the_reference(random_model: Path, cut: int) -> None:
    chunks = [part for part in (TOKENS[:cut], TOKENS[cut:]) if part]
    got = torch.tensor(logprobs(random_model, "fast", chunks))
    wanted = expected(random_model)
    # The spread of these logits is about 8; bfloat16 rounds each product to 2**-9 of itself.
    assert (got - wanted).abs().mean() <= 0.03 * float(wanted.std())
    assert int(got.argmax()) == int(wanted.argmax())


def config(**more: object) -> ModelConfig:
    """Sizes for the rotation only."""
    sizes = {"layers": 1, "width": 8, "ffn": 8, "heads": 1, "kv_heads": 1, "head_dim": 8}
    rest = {"context": 64, "vocab": 8, "rope_theta": 100.0, "norm_eps": 1e-5}
    return ModelConfig(name="m", **{**sizes, **rest, **more})  # type: ignore[arg-type]


def test_a_rotation_turns_each_pair_by_position_times_its_speed() -> None:
    turns = rotations(config())
    heads = torch.tensor([1.0, 0.0] * 4).view(1, 1, 8)
    rotate_(heads, turns[3:4])
    turned = heads[0, 0]
    for pair in range(4):
        angle = 3 * 100.0 ** (-2 * pair / 8)
        wanted = (math.cos(angle), math.sin(angle))
        assert turned[2 * pair : 2 * pair + 2].tolist() == pytest.approx(wanted, abs=1e-6)


def test_llama3_scaling_slows_slow_rotations_and_leaves_fast_ones() -> None:
    scaling = RopeScaling(8.0, 1.0, 4.0, 8192)
    plain = rotations(config(rope_theta=500_000.0, head_dim=128))[1, 0].angle()
    scaled = rotations(config(rope_theta=500_000.0, head_dim=128, rope_scaling=scaling))
    ratio = scaled[1, 0].angle() / plain
    # Wave lengths under 8192 / 4 stay, over 8192 / 1 are 8 times slower (Llama 3.1 model card).
    length = 2 * math.pi / plain
    assert ratio[length < 2048].tolist() == pytest.approx([1.0] * int((length < 2048).sum()))
    assert ratio[length > 8192].tolist() == pytest.approx([1 / 8] * int((length > 8192).sum()))
    between = ratio[(length > 2048) & (length < 8192)]
    assert len(between) and bool(((between > 1 / 8) & (between < 1)).all())
