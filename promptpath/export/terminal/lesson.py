"""A learner's view: for each hop of the trip one plain sentence, what it is and what drives it."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from promptpath.export.terminal.style import safe
from promptpath.model.enums import Stage
from promptpath.model.report import Report

LESSONS: dict[Stage, str] = {
    Stage.DNS: (
        "The name becomes an address; a cached answer takes about no time, a resolver that must "
        "ask others takes several of their round trips."
    ),
    Stage.PROXY: (
        "A forward proxy is reached and asked for a tunnel: one round trip to it, and the time "
        "that it needs to connect onwards."
    ),
    Stage.TCP: (
        "One round trip: the SYN goes out and the SYN-ACK comes back, so this is the distance to "
        "whoever answers first, mostly an edge nearby."
    ),
    Stage.TLS: (
        "Both sides agree on keys and the server proves its name: one round trip in TLS 1.3, two "
        "in TLS 1.2, and one more when the first key share does not suit."
    ),
    Stage.QUIC: "Connection and keys in one: a round trip, or none for early data.",
    Stage.REQUEST: (
        "The prompt goes up: size divided by the upload rate, and a round trip more each time the "
        "congestion window must grow first."
    ),
    Stage.WAIT: (
        "From the last byte of the prompt to the first visible token: a round trip, every stage "
        "of the server up to prefill, and every box that holds bytes back."
    ),
    Stage.GENERATION: (
        "From the first to the last token: one engine step a token, so the length of the answer "
        "times the time of a step."
    ),
    Stage.FINISH: "What follows the last token: usage, the end marker and the end of the response.",
    Stage.EDGE: (
        "A box in front ends TLS and chooses a server; it should take under a millisecond unless "
        "it inspects, queues or buffers."
    ),
    Stage.GATEWAY: (
        "The key is checked and requests and tokens are counted against its limits; a shared "
        "store of these adds a round trip inside the data centre."
    ),
    Stage.SESSION: (
        "The turns so far are fetched and put before the new one: the store's latency, and with "
        "it a prompt that grows with each turn."
    ),
    Stage.TOKENIZE: "The text is cut into the model's tokens; it grows with the prompt's length.",
    Stage.QUEUE: (
        "The request waits for a place in the batch: it is long when others came before, whatever "
        "this prompt is like, and more servers shorten it."
    ),
    Stage.PREFILL: (
        "The model reads the whole prompt at once and fills its KV cache: arithmetic, so it grows "
        "with the prompt, and a cached prefix saves its share."
    ),
    Stage.RETURN: (
        "What no stage explains: the way there and back, at least one round trip, and whoever "
        "kept bytes on the way."
    ),
    Stage.DECODE: (
        "One token a step, each reading all weights and the KV cache once: memory bandwidth sets "
        "the pace, and requests in the same batch share it."
    ),
    Stage.HOLD: "A box kept bytes that it already had: a buffer, a scanner or a compressor.",
    Stage.STALL: (
        "Gaps far beyond the stream's own rhythm: loss on the path, a large prompt that joined the "
        "batch, or a request that was put aside for others."
    ),
}
"""A sentence for every stage; `docs/concepts/ttft.md` says more."""


def lesson(report: Report) -> Iterator[RenderableType]:
    """What each hop of this trip is, in the order of the trip; each stage once."""
    told: set[Stage] = set()
    for hop in report.hops:
        if hop.stage in told:
            continue
        if not told:
            yield Text("what the hops are", style="bold")
        told.add(hop.stage)
        indent = 0 if hop.within is None else 2
        yield Padding(Text(safe(hop.title)), (0, 0, 0, indent))
        yield Padding(Text(LESSONS[hop.stage], style="dim"), (0, 0, 0, indent + 4))
