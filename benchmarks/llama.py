"""Our engine beside llama.cpp, on the same file and threads, in turns: ratios of tokens a second.

    npm install --prefix DIR --ignore-scripts node-llama-cpp@3.22.1
    LLAMA_MODULES=DIR/node_modules python -m benchmarks.llama

llama.cpp is the prebuilt one of node-llama-cpp, driven through its own interface
(benchmarks/llama.mjs), which evaluates concurrent sequences in one batch and samples token by token
across a process border of JavaScript's making: llama.cpp alone is faster than that, so a ratio here
is an upper bound, and the decode ratios are stated, not judged: only prefill samples nothing on the
way. "Ours" is the bare runner with every core spinning (benchmarks.engine, `alone`); the server
leaves a core to others and is slower. Not in CI.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.engine import CONTEXT, STEPS, run_part
from benchmarks.harness import Bar, machine, median, publish
from reference_server.pull import pull
from reference_server.weights import SMOLLM2, kept

ROUNDS = 3
TOKENS = {"decode_1": 1, "decode_4": 4, "decode_16": 16, "prefill_512": 512}
LIMITS = {"prefill_512": 2.5}
"""The bar that this comparison can judge."""


def theirs(modules: str, threads: int) -> dict[str, float]:
    """llama.cpp's tokens a second."""
    path = kept(SMOLLM2)
    node = shutil.which("node")
    if node is None or path is None:
        raise SystemExit("needs node and the model: apt-get install nodejs; promptpath model pull")
    script = str(Path(__file__).with_name("llama.mjs"))
    command = [node, script, str(path), str(threads), str(CONTEXT), str(STEPS)]
    environment = {**os.environ, "LLAMA_MODULES": modules}
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def ours() -> dict[str, float]:
    """Our tokens a second, threads spinning as llama.cpp's do."""
    part = run_part("alone")
    return {name: count * 1e3 / (median(part[name]) or 1e9) for name, count in TOKENS.items()}


def main() -> int:
    """Measure in turns; 1 when a bar was missed."""
    modules = os.environ.get("LLAMA_MODULES")
    if modules is None:
        raise SystemExit("set LLAMA_MODULES to the node_modules folder of node-llama-cpp")
    pull(SMOLLM2)
    before = machine()
    threads = os.cpu_count() or 1
    rounds: list[dict[str, Any]] = []
    for _ in range(ROUNDS):
        rounds.append({"theirs": theirs(modules, threads), "ours": ours()})
    bars: list[Bar] = []
    for name in TOKENS:
        ratios = [each["ours"][name] / each["theirs"][name] for each in rounds]
        label = name.replace("_", " ")
        for who in ("ours", "theirs"):
            value = statistics.median(each[who][name] for each in rounds)
            bars.append(Bar(name=f"{label}, {who}", value=value, unit="tokens/s"))
        bars.append(
            Bar(
                name=f"{label}, ratio to node-llama-cpp, median of {ROUNDS}",
                value=statistics.median(ratios),
                unit="",
                limit=LIMITS.get(name),
                better=">=",
            )
        )
    return publish("llama", bars, {"rounds": rounds}, before)


if __name__ == "__main__":
    sys.exit(main())
