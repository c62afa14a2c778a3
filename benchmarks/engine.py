"""The real engine on the bundled model: decoding, prefill, its roofline, neighbours, the caches.

Each part runs in a process of its own, since how threads wait is fixed when torch is imported.
`alone` spins on every core, as other engines do; the rest runs as the server does. The model is
pulled first, if it is not there. All but `neighbour` run at real-time priority where that is
allowed, since on a busy machine they would measure its scheduler.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from benchmarks.harness import Bar, machine, median, percentile, publish, run_first
from reference_server.compute.threads import prepare_threads
from reference_server.engine.blocks import BlockPool
from reference_server.engine.generation import GenerationRequest
from reference_server.engine.loop import EngineLoop, Event, TokenOut
from reference_server.engine.plan import ModelRunner, SamplingParams, StepItem, StepPlan
from reference_server.engine.scheduler import Scheduler, SchedulerLimits
from reference_server.pull import pull
from reference_server.settings import DEFAULT_TEXT, ModelSettings
from reference_server.text.model_text import ModelText
from reference_server.text.prompt import Message
from reference_server.weights import SMOLLM2, kept

CONTEXT = 128
STEPS = 40
PAIRS = 15
T_14 = 1.761
"""Student's t for 14 degrees of freedom and a two-sided interval of 90 %."""
PREFIX = 1000
SPINS = "100000"
"""Of the values tried (1,000, 10,000, 100,000 and libgomp's default) the fastest on two cores."""
ANSWER = 200
BUDGET = ModelSettings("").token_budget
Mode = Literal["fast", "fp32"]

Part = Callable[[], dict[str, Any]]


def load(threads: int | None, blocks: int = 512) -> Any:
    """The model, as the worker loads it."""
    used = prepare_threads(threads)
    from reference_server.compute.loading import load as load_model

    path = kept(SMOLLM2)
    if path is None:
        raise SystemExit("the model is not here: promptpath model pull")
    return load_model(ModelSettings(str(path), kv_blocks=blocks), used)


def step_ms(runner: ModelRunner, plan: StepPlan) -> float:
    """Milliseconds of one step."""
    result = runner.execute(plan)
    return (result.ended_ns - result.started_ns) / 1e6


def decode_plan(batch: int, position: int) -> StepPlan:
    """One token for each of `batch` sequences."""
    table = 16
    items = [
        StepItem(n, (100 + n,), position, tuple(range(n * table, (n + 1) * table)), True)
        for n in range(batch)
    ]
    return StepPlan(tuple(items))


def alone() -> dict[str, Any]:
    """`speed` with every core, whose threads wait spinning: the fastest on a machine where nothing
    else runs, and beside any other process by far the slowest (see `neighbour`)."""
    os.environ["GOMP_SPINCOUNT"] = SPINS
    return speed(os.cpu_count())


def speed(threads: int | None = None) -> dict[str, Any]:
    """Decode steps at batch 1, 4, 16 and prefills of 512, ms; GB/s read beside."""
    runner = load(threads).runner
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    found: dict[str, Any] = {}
    numbers = torch.ones(64 * 1024 * 1024)
    reads = []
    for batch in (1, 4, 16):
        steps = []
        for number in range(STEPS):
            steps.append(step_ms(runner, decode_plan(batch, CONTEXT + number)))
            if number % 8 == 0:
                started = time.perf_counter()
                numbers.sum()
                reads.append(numbers.nbytes / (time.perf_counter() - started) / 1e9)
        found[f"decode_{batch}"] = steps
    prompt = StepItem(0, tuple(range(100, 612)), 0, tuple(range(32)), True)
    found["prefill_512"] = [step_ms(runner, StepPlan((prompt,))) for _ in range(8)]
    found["read_gb_s"] = reads
    return found


def neighbour() -> dict[str, Any]:
    """Decode steps of 4 sequences, ms, with the server's threads, one core busy with another."""
    runner = load(None).runner
    with busy():
        steps = [step_ms(runner, decode_plan(4, CONTEXT + number)) for number in range(100)]
    return {"step": steps}


@contextmanager
def busy() -> Any:
    """A process beside us that computes without end."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


class Rig:
    """The engine's loop over the real model."""

    def __init__(self, runner: ModelRunner, budget: int = BUDGET) -> None:
        self.events: list[tuple[float, Event]] = []
        limits = SchedulerLimits(token_budget=budget, context_tokens=8192)
        scheduler = Scheduler(limits, BlockPool(runner.block_count))
        self.loop = EngineLoop(scheduler, runner, lambda asked: _NoText(), self._now, self._note)

    def _now(self) -> int:
        return time.monotonic_ns()

    def _note(self, event: Event) -> None:
        self.events.append((time.perf_counter() * 1e3, event))

    def submit(self, name: str, prompt: tuple[int, ...], tokens: int, salt: str = "") -> None:
        """Queue a greedy request."""
        params = SamplingParams()
        self.loop.submit(
            GenerationRequest(name, len(prompt), tokens, prompt, params, cache_salt=salt)
        )

    def token_times(self, name: str) -> list[float]:
        """When the request's tokens came, ms."""
        return [
            at
            for at, event in self.events
            if isinstance(event, TokenOut) and event.request_id == name
        ]

    def first_token_ms(self, name: str, prompt: tuple[int, ...], salt: str = "") -> float:
        """From the request to its only token, alone in the engine."""
        started = time.perf_counter() * 1e3
        self.submit(name, prompt, 1, salt)
        while self.loop.turn():
            pass
        return self.token_times(name)[0] - started


class _NoText:
    """An `AnswerText` that says nothing."""

    stop_text: str | None = None

    def push(self, token_id: int) -> str:
        """Nothing."""
        return ""

    def end(self) -> str:
        """Nothing."""
        return ""


def joining() -> dict[str, Any]:
    """The longest gap of 4 streams while a prompt of 1,024 tokens joins, ms: chunked and whole."""
    runner = load(None).runner
    found = {}
    for name, budget in (("chunked", BUDGET), ("whole", 4096)):
        rig = Rig(runner, budget)
        for number in range(4):
            rig.submit(str(number), tuple(range(200 + number, 232 + number)), 60)
        for _ in range(10):
            rig.loop.turn()
        rig.submit("long", tuple(range(1000, 2024)), 1)
        while rig.loop.turn():
            pass
        times = [rig.token_times(str(number)) for number in range(4)]
        gaps = [b - a for each in times for a, b in pairwise(each)]
        found[name] = max(gaps)
    return found


def prefix() -> dict[str, Any]:
    """TTFT of a prompt of 1,000 tokens, ms: cold, again, and again under another salt."""
    rig = Rig(load(None, blocks=8192).runner)
    found: dict[str, list[float]] = {"cold": [], "hit": [], "salted": []}
    for pair in range(PAIRS + 1):
        prompt = tuple(1000 + pair + at for at in range(PREFIX))
        times = {"cold": rig.first_token_ms(f"c{pair}", prompt)}
        times["hit"] = rig.first_token_ms(f"h{pair}", prompt)
        times["salted"] = rig.first_token_ms(f"s{pair}", prompt, salt=f"salt {pair}")
        if pair:  # The first pays for what is built on first use.
            for name, value in times.items():
                found[name].append(value)
    return found


def difference() -> dict[str, Any]:
    """Where the default mode would choose another token than float32, on the same text.

    The kernels' error is measured on another text: the one that the paced engine says.
    """
    runner, text = _parts()
    question = Message("user", ("Why does my BGP session keep flapping?",))
    tokens = list(text.chat([question], 1000).ids)
    position, pending = 0, tuple(tokens)
    for _ in range(ANSWER):
        item = StepItem(0, pending, position, tuple(range(32)), True)
        token = runner.execute(StepPlan((item,))).sampled[0].token_id
        position += len(pending)
        pending = (token,)
        tokens.append(token)
    other = list(text.plain(DEFAULT_TEXT, 1000).ids)
    error = (logits("fp32", other, 64) - logits("fast", other, 1)).abs().amax()
    exact, fast = logits("fp32", tokens, 64), logits("fast", tokens, 1)
    best = exact.topk(2).values
    gaps = (best[:, 0] - best[:, 1])[exact.argmax(-1) != fast.argmax(-1)].tolist()
    return {"tokens": len(tokens), "gaps": gaps, "error": float(error)}


def _parts() -> tuple[ModelRunner, ModelText]:
    loaded = load(None)
    return loaded.runner, loaded.text


def logits(mode: Mode, ids: list[int], rows: int) -> Any:
    """The logits after each token, computed `rows` tokens at a time."""
    import torch

    from reference_server.compute.attention import GatherAttention
    from reference_server.compute.checkpoint import open_checkpoint
    from reference_server.compute.kv import KvPool
    from reference_server.compute.model import Llama

    checkpoint = open_checkpoint(str(kept(SMOLLM2)))
    model = Llama(checkpoint, mode)
    checkpoint.close()
    attention = GatherAttention(KvPool(model.config, 32, model.dtype))
    out = []
    with torch.inference_mode():
        for at in range(0, len(ids), rows):
            part = tuple(ids[at : at + rows])
            attention.begin((StepItem(0, part, at, tuple(range(32)), True),))
            places = torch.arange(at, at + len(part))
            out.append(model.logits(model.forward(torch.tensor(part), places, attention)))
    return torch.cat(out)


PARTS: dict[str, Part] = {
    "alone": alone,
    "speed": speed,
    "neighbour": neighbour,
    "joining": joining,
    "prefix": prefix,
    "difference": difference,
}


def run_part(name: str) -> dict[str, Any]:
    """One part in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.engine", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[1])
    if done.returncode:
        raise SystemExit(f"benchmarks.engine {name} failed")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def off_by(cold: list[float], salted: list[float]) -> float:
    """The end of the 90 % interval of salted / cold that lies farther from 1, as a distance."""
    ratios = [math.log(b / a) for a, b in zip(cold, salted, strict=True)]
    mean = statistics.fmean(ratios)
    half = T_14 * statistics.stdev(ratios) / math.sqrt(len(ratios))
    return max(abs(math.exp(mean - half) - 1), abs(math.exp(mean + half) - 1))


def _speeds(part: dict[str, Any], how: str) -> list[Bar]:
    """Tokens a second from the milliseconds of steps."""
    tokens = {"decode_1": 1, "decode_4": 4, "decode_16": 16, "prefill_512": 512}
    return [
        Bar(
            name=f"{name.replace('_', ' ')}, {how}",
            value=count * 1e3 / (median(part[name]) or math.nan),
            unit="tokens/s",
        )
        for name, count in tokens.items()
    ]


def bars(runs: dict[str, Any]) -> list[Bar]:
    """The numbers and the founding bars."""
    read = max(runs["alone"]["read_gb_s"])
    differ = runs["difference"]
    roofline = read * 1e9 / SMOLLM2.file_bytes
    cold, hit, salted = (runs["prefix"][name] for name in ("cold", "hit", "salted"))
    found = _speeds(runs["alone"], "alone") + _speeds(runs["speed"], "as the server runs")
    best = found[0].value or math.nan
    found += [
        Bar(name="memory read, all cores", value=read, unit="GB/s"),
        Bar(
            name="batch 1 alone, share of reading the file once a token",
            value=best / roofline,
            unit="",
            limit=0.27,
            better=">=",
        ),
        Bar(
            name="step of 4 rows beside a busy process, p90",
            value=percentile(runs["neighbour"]["step"], 90),
            unit="ms",
            limit=60,
        ),
        Bar(
            name="longest gap of 4 streams, 1,024 tokens join",
            value=runs["joining"]["chunked"],
            unit="ms",
            limit=350,
        ),
        Bar(name="the same without chunks", value=runs["joining"]["whole"], unit="ms"),
        Bar(name="TTFT of 1,000 tokens, cold", value=median(cold), unit="ms"),
        Bar(
            name="TTFT of a prefix hit / cold",
            value=(median(hit) or math.nan) / (median(cold) or math.nan),
            unit="",
            limit=0.25,
        ),
        Bar(
            name="TTFT under another salt, off cold by at most (90 %)",
            value=off_by(cold, salted),
            unit="",
            limit=0.05,
        ),
        Bar(
            name=f"greedy tokens of {differ['tokens']} unlike float32's",
            value=len(differ["gaps"]),
            unit="",
        ),
        Bar(
            name="widest gap of the two best logits there / kernels' error",
            value=max(differ["gaps"], default=0.0) / differ["error"],
            unit="",
            limit=2,
        ),
    ]
    return found


def main() -> int:
    """Measure; write benchmarks/results/engine.json; 1 when a bar was missed."""
    if sys.argv[1:]:
        if sys.argv[1] != "neighbour":
            run_first()
        print(json.dumps(PARTS[sys.argv[1]]()))
        return 0
    pull(SMOLLM2)
    before = machine()
    runs = {name: run_part(name) for name in PARTS}
    return publish("engine", bars(runs), runs, before)


if __name__ == "__main__":
    sys.exit(main())
