"""The engine that the settings ask for, with the tokenizer and the limits that belong to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from reference_server.clock import Now
from reference_server.compute.paced import PacedEngine
from reference_server.engine.generation import Engine
from reference_server.settings import ModelSettings, ServiceSettings, Settings
from reference_server.text.prompt import PacedText, PromptText


@dataclass(frozen=True, slots=True)
class Built:
    """What belongs together."""

    engine: Engine
    text: PromptText
    service: ServiceSettings
    """The settings' own, with the model's name and limits."""


def build_engine(settings: Settings, now: Now) -> Built:
    """The paced engine, or the one of `settings.model`, not started yet.

    Raises ModelFileError when the model's file cannot be used.
    """
    if settings.model is None:
        return Built(
            PacedEngine(settings.pace, settings.engine, now), PacedText(), settings.service
        )
    return _real(settings, settings.model)


def _real(settings: Settings, model: ModelSettings) -> Built:
    # Only now: tiktoken and msgspec are not for the paced engine to pay for.
    from reference_server.compute.config import read_config
    from reference_server.compute.model_file import ModelFileError
    from reference_server.compute.text_file import read_text
    from reference_server.engine.frames import Start
    from reference_server.engine.plan import BLOCK_TOKENS
    from reference_server.engine.remote import RemoteEngine
    from reference_server.engine.scheduler import SchedulerLimits

    try:
        text = read_text(model.path)
        context = min(read_config(model.path).context, model.kv_blocks * BLOCK_TOKENS)
    except OSError as error:
        raise ModelFileError(model.path, str(error.strerror or error)) from error
    limits = SchedulerLimits(
        token_budget=max(model.token_budget, settings.engine.slots),
        max_running=settings.engine.slots,
        queue_limit=settings.engine.queue_limit,
        context_tokens=context,
        prefix_cache=model.prefix_cache,
        kv_cache=model.kv_cache,
        batching=model.batching,
    )
    engine = RemoteEngine(Start(model, limits), settings.engine, text.tokenizer.label)
    # The last place is for one token of an answer.
    service = replace(settings.service, model=name_of(model.path), context_tokens=context - 1)
    return Built(engine, text, service)


def name_of(path: str) -> str:
    """What the API calls the model: the file's name without its last suffix, or the folder's."""
    where = Path(path).resolve()
    return where.name if where.is_dir() else where.stem
