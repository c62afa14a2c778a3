"""An engine that hands over given steps, and an application around it, for what the paced engine
never does: held-back text, log probabilities."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from reference_server.app import ReferenceApp, create_app
from reference_server.compute.paced import PacedEngine
from reference_server.engine.generation import (
    FailureCode,
    FinishReason,
    Generation,
    GenerationRequest,
    Stages,
    Step,
    TokenLogprob,
)
from reference_server.settings import EngineSettings, PaceSettings
from tests.reference_server.harness import Answer, Client
from tests.virtual_time import VirtualTimeLoop, run


class ScriptedEngine(PacedEngine):
    """Every request gets the same steps at once."""

    def __init__(
        self,
        steps: Sequence[Step],
        reason: FinishReason = "stop",
        stop_text: str | None = None,
        failure: FailureCode | None = None,
    ) -> None:
        super().__init__(PaceSettings(), EngineSettings())
        self.requests: list[GenerationRequest] = []
        self._script = steps
        self._end = reason, stop_text
        self._failure = failure

    @property
    def gives_logprobs(self) -> bool:
        """It says what the script says."""
        return True

    def submit(self, request: GenerationRequest, admitted_ns: int) -> Generation:
        """All steps are there when this returns."""
        self.requests.append(request)
        stages = Stages(admitted_ns, scheduled_ns=admitted_ns, prompt_tokens=request.prompt_tokens)
        generation = Generation(request, stages, 1000, on_cancel=lambda: None)
        for step in self._script:
            generation.put(step)
        if self._failure is not None:
            generation.fail(self._failure)
        else:
            generation.finish(*self._end)
        return generation


def steps(*texts: str, logprobs: Sequence[Sequence[TokenLogprob]] = ()) -> list[Step]:
    """A step of one token for each text."""
    said = [tuple(each) for each in logprobs] or [()] * len(texts)
    return [
        Step(text, 1, at + 1, 1, at + 1, tokens)
        for at, (text, tokens) in enumerate(zip(texts, said, strict=True))
    ]


def ask_scripted(engine: ScriptedEngine, path: str, body: dict[str, Any]) -> Answer:
    """One request to an application with that engine, in virtual time."""

    async def scenario(loop: VirtualTimeLoop) -> Answer:
        service = create_app(None, loop.now_ns)._service
        app = ReferenceApp(dataclasses.replace(service, engine=engine))
        return await Client(app, loop.now_ns).ask("POST", path, body)

    return run(scenario)[0]
