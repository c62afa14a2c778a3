"""SmolLM2 itself, where it has been pulled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reference_server.compute import torch_needed  # noqa: F401  # isort: skip

from reference_server.compute.checkpoint import open_checkpoint
from reference_server.compute.model import Llama, Mode
from reference_server.compute.runner import make_runner
from reference_server.compute.text_file import read_text
from reference_server.engine.plan import StepItem, StepPlan
from reference_server.text.prompt import Message
from reference_server.weights import SMOLLM2, kept
from tests.reference_server.compute.reference import greedy
from tests.reference_server.harness import QUESTION

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def path() -> Path:
    """The pulled file."""
    file = kept(SMOLLM2)
    if file is None:
        pytest.skip("no model in the cache; promptpath model pull")
    return file


def answer(path: Path, mode: Mode, prompt: tuple[int, ...], count: int) -> list[int]:
    """The greedy answer."""
    checkpoint = open_checkpoint(str(path))
    runner = make_runner(Llama(checkpoint, mode), 16, lambda: 0, exact=mode == "exact")
    checkpoint.close()
    tokens: list[int] = []
    position, pending = 0, prompt
    while len(tokens) < count:
        item = StepItem(0, pending, position, tuple(range(16)), True)
        position += len(pending)
        pending = (runner.execute(StepPlan((item,))).sampled[0].token_id,)
        tokens += pending
    return tokens


def test_its_answer_is_the_references_and_is_text_about_the_question(path: Path) -> None:
    text = read_text(str(path))
    prompt = text.chat([Message("user", (QUESTION,))], 1000).ids
    exact = answer(path, "exact", prompt, 24)
    checkpoint = open_checkpoint(str(path))
    assert exact[:3] == greedy(checkpoint, list(prompt), 3)
    checkpoint.close()
    fast = answer(path, "fast", prompt, 24)
    for tokens in (exact, fast):
        said = b"".join(map(text.tokenizer.bytes_of, tokens)).decode()
        assert "BGP" in said and "session is a" in said
