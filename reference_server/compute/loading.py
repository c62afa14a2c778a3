"""From a model's path to what computes and speaks for it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from reference_server.clock import monotonic_ns
from reference_server.compute.checkpoint import open_checkpoint
from reference_server.compute.linear import nibbles_work, prepacking_works
from reference_server.compute.model import Llama
from reference_server.compute.model_file import ModelFileError
from reference_server.compute.runner import TorchRunner, make_runner, warm_up
from reference_server.compute.text_file import read_text
from reference_server.compute.threads import Threads
from reference_server.engine.plan import BLOCK_TOKENS
from reference_server.settings import ModelSettings
from reference_server.text.model_text import ModelText


class LoadError(Exception):
    """The model cannot be loaded; the text says why, for a person."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory."""

    runner: TorchRunner
    text: ModelText
    context_tokens: int
    """Longest prompt and answer together: the model's, or what the KV pool holds."""
    kernels: str
    """What computes, for a person."""


def load(settings: ModelSettings, threads: Threads) -> Loaded:
    """Read the weights and make them ready. Raises LoadError."""
    torch.set_num_threads(threads.wide)
    try:
        text = read_text(settings.path)
        checkpoint = open_checkpoint(settings.path)
        try:
            model = Llama(checkpoint, settings.mode)
        finally:
            checkpoint.close()
        runner = _runner(model, settings, threads)
    except (ModelFileError, MemoryError) as error:
        raise LoadError(str(error)) from error
    except OSError as error:
        raise LoadError(f"{settings.path}: {error.strerror or error}") from error
    known = len(text.tokenizer.vocabulary.tokens)
    if known > model.config.vocab:
        problem = f"{known} tokens in the tokenizer, {model.config.vocab} in the model"
        raise LoadError(f"{settings.path}: {problem}")
    warm_up(runner)
    context = min(model.config.context, settings.kv_blocks * BLOCK_TOKENS)
    return Loaded(runner, text, context, _kernels(settings.mode))


def _runner(model: Llama, settings: ModelSettings, threads: Threads) -> TorchRunner:
    if settings.mode != "exact":
        return make_runner(model, settings.kv_blocks, monotonic_ns, exact=False, threads=threads)
    # The number of threads is part of a sum's order.
    torch.set_num_threads(threads.narrow)
    return make_runner(model, settings.kv_blocks, monotonic_ns, exact=True)


def _kernels(mode: str) -> str:
    if mode == "exact":
        return "float32, fixed order of sums"
    if mode == "fp32":
        return "float32"
    rows = "four bits where the file has them, " if nibbles_work() else ""
    return rows + ("prepacked bfloat16" if prepacking_works() else "bfloat16")
