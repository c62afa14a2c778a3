"""What the scheduler costs, how full the KV memory is, and what continuous batching gains.

The cost is measured with 64 sequences running and a model that answers at once. The other two are
simulated: the same scheduler, and a model that only counts time. Its step takes 10 ms, 2 ms more
for each row that decodes and 1 ms for each prompt token, as the bundled model did on 2 CPU cores.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass, field, replace

from benchmarks.harness import Bar, machine, median, percentile, publish, run_first
from reference_server.engine.blocks import BlockPool
from reference_server.engine.generation import GenerationRequest
from reference_server.engine.plan import BLOCK_TOKENS, SampledToken, StepPlan, StepResult
from reference_server.engine.scheduler import Scheduler, SchedulerLimits

RUNNING = 64
STEPS = 2_000
REQUESTS = 200
BATCH = 16
MEAN_OUTPUT, LONGEST_OUTPUT = 128, 512
MEAN_PROMPT = 212
STEP_MS, ROW_MS, PROMPT_TOKEN_MS = 10.0, 2.0, 1.0


def outputs(dice: random.Random) -> int:
    """Tokens of an answer: exponential, at least 1."""
    return 1 + min(LONGEST_OUTPUT - 1, round(dice.expovariate(1 / MEAN_OUTPUT)))


def request(name: int, prompt: int, tokens: int) -> GenerationRequest:
    """A request whose prompt nobody shares."""
    ids = tuple(range(name * 10_000, name * 10_000 + prompt))
    return GenerationRequest(str(name), prompt, tokens, ids)


def answer(plan: StepPlan) -> StepResult:
    """A token for whoever wants one, in no time."""
    sampled = tuple(SampledToken(item.sequence_id, 7) for item in plan.items if item.sample)
    return StepResult(sampled, 0, 0)


def step_costs() -> list[float]:
    """Milliseconds of scheduling in each step, 64 sequences running, prompts joining throughout."""
    dice = random.Random(3)
    limits = SchedulerLimits(max_running=RUNNING, queue_limit=RUNNING)
    scheduler = Scheduler(limits, BlockPool(RUNNING * 40))
    costs: list[float] = []
    name = 0
    while len(costs) < STEPS:
        while scheduler.running + scheduler.waiting < RUNNING + 4:
            name += 1
            scheduler.submit(
                request(name, 1 + round(dice.expovariate(1 / MEAN_PROMPT)), outputs(dice))
            )
        started = time.perf_counter()
        plan = scheduler.step(0)
        planned = time.perf_counter()
        if plan is None:
            raise RuntimeError("nothing to do")
        result = answer(plan)
        resumed = time.perf_counter()
        scheduler.on_step_done(plan, result)
        cost = planned - started + time.perf_counter() - resumed
        if scheduler.running == RUNNING:
            costs.append(cost * 1e3)
    return costs


def kv_use() -> list[float]:
    """The share of the held blocks that holds computed tokens, step by step at full load."""
    dice = random.Random(7)
    limits = SchedulerLimits(max_running=RUNNING, queue_limit=1000, prefix_cache=False)
    scheduler = Scheduler(limits, BlockPool(RUNNING * 24))
    for name in range(4 * RUNNING):
        prompt = 1 + min(2000, round(dice.expovariate(1 / MEAN_PROMPT)))
        scheduler.submit(request(name, prompt, outputs(dice)))
    shares = []
    while (plan := scheduler.step(0)) is not None:
        scheduler.on_step_done(plan, answer(plan))
        if scheduler.waiting:
            live = list(scheduler.live())
            held = sum(len(sequence.table) for sequence in live) * BLOCK_TOKENS
            shares.append(sum(sequence.computed for sequence in live) / held)
    return shares


@dataclass
class Simulated:
    """A run on simulated time."""

    tokens: int = 0
    ms: float = 0.0
    ttfts: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.ms * 1e3


def simulate(limits: SchedulerLimits, pay_for_padding: bool = True) -> Simulated:
    """All requests are there at the start; their lengths are the same for every policy."""
    dice = random.Random(5)
    scheduler = Scheduler(limits, BlockPool(BATCH * 64))
    for name in range(REQUESTS):
        scheduler.submit(request(name, 20, outputs(dice)))
    done = Simulated()
    first: set[int] = set()
    while (plan := scheduler.step(0)) is not None:
        rows = sum(item.sample or pay_for_padding for item in plan.items)
        prompt = sum(len(item.token_ids) for item in plan.items if item.position < 20)
        done.ms += STEP_MS + ROW_MS * rows + PROMPT_TOKEN_MS * prompt
        for outcome in scheduler.on_step_done(plan, answer(plan)):
            done.tokens += 1
            if outcome.sequence.number not in first:
                first.add(outcome.sequence.number)
                done.ttfts.append(done.ms)
    return done


def main() -> int:
    """Run, publish, judge."""
    before = machine()
    fifo = run_first()
    costs, shares = step_costs(), kv_use()
    limits = SchedulerLimits(max_running=BATCH, queue_limit=REQUESTS)
    static = replace(limits, batching="static")
    continuous, padded = simulate(limits), simulate(static)
    skipping = simulate(static, pay_for_padding=False)
    late, padded_late = percentile(continuous.ttfts, 99), percentile(padded.ttfts, 99)
    if late is None or padded_late is None:
        raise RuntimeError("nobody was served")
    bars = [
        Bar(name="scheduling a step, 64 running, median", value=median(costs), unit="ms", limit=1),
        Bar(name="scheduling a step, 64 running, p99", value=percentile(costs, 99), unit="ms"),
        Bar(
            name="KV memory holding real tokens at full load (simulated)",
            value=sum(shares) / len(shares),
            unit="",
            limit=0.96,
            better=">=",
        ),
        Bar(
            name="continuous / padded static, tokens a second (simulated)",
            value=continuous.rate / padded.rate,
            unit="x",
            limit=2,
            better=">=",
        ),
        Bar(
            name="continuous / padded static, p99 TTFT (simulated)",
            value=late / padded_late,
            unit="x",
            limit=1,
        ),
        Bar(
            name="continuous / static that skips ended rows (simulated)",
            value=continuous.rate / skipping.rate,
            unit="x",
        ),
    ]
    runs = {
        "fifo": fifo,
        "step_ms": costs[:: len(costs) // 200],
        "tokens_per_s": {
            "continuous": continuous.rate,
            "padded": padded.rate,
            "skipping": skipping.rate,
        },
        "p99_ttft_ms": {"continuous": late, "padded": padded_late},
    }
    return publish("scheduler", bars, runs, before)


if __name__ == "__main__":
    sys.exit(main())
