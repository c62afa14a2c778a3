"""A report: what a trace means. Made by analysis only; every number here is derived, never
measured anew.

Times are milliseconds (`*_ms`); missing is None.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from promptpath.model.enums import Clock, EndState, FactSource, Severity, Stage
from promptpath.model.rows import Json

REPORT_SCHEMA = "promptpath.report/1"
"""Only grows within the major version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One stage of the trip as shown to a person. Hops with `within` None are disjoint, lie on the
    critical path, and with `unexplained_ms` sum to `e2e_ms`."""

    stage: Stage
    within: Stage | None
    title: str
    start_ms: float | None
    """Since t0; None for a reported hop whose place is not known."""
    duration_ms: float
    error_ms: float
    source: FactSource
    drivers: tuple[str, ...] = ()
    """What made it as long as it was, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestones:
    """Instants since t0 that must not be taken for one another; None is "never"."""

    headers_ms: float | None = None
    first_byte_ms: float | None = None
    """First byte of the response body."""
    first_frame_ms: float | None = None
    first_keepalive_ms: float | None = None
    first_reasoning_ms: float | None = None
    first_visible_ms: float | None = None
    """First visible text: the end of TTFT."""
    last_token_ms: float | None = None
    finish_ms: float | None = None
    usage_ms: float | None = None
    end_marker_ms: float | None = None
    eof_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The headline times. `ttft_ms` counts from t0, `ttft_request_ms` from the last request byte on
    the wire; both are None when no visible text ever came (`ttft_never` says why)."""

    headers_ms: float | None
    ttfb_ms: float | None
    first_frame_ms: float | None
    first_reasoning_ms: float | None
    ttft_ms: float | None
    ttft_request_ms: float | None
    e2e_ms: float
    unexplained_ms: float
    """e2e minus the top-level hops; negative remainders are a finding."""
    ttft_error_ms: float | None = None
    ttft_never: str | None = None
    """Why there was no visible text: hidden reasoning, refusal, tool call only, error, no
    stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """A distribution of gaps in milliseconds. Quantiles are linear between order statistics
    (Hyndman and Fan 1996, type 7)."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A gap far longer than the stream's own rhythm."""

    after_event: int
    """Index into `trace.events` of the event before the gap."""
    start_ms: float
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cadence:
    """The rhythm of the stream. A gap is between two events with content; ITL is per token."""

    output_tokens: int | None
    token_source: str | None
    """usage | o200k_base | estimate | events."""
    events: int
    """Events with content."""
    tokens_per_event: float | None
    inter_event_ms: Quantiles | None
    itl_ms: Quantiles | None
    """Each gap divided by the tokens its event carried."""
    tpot_ms: float | None
    """(last token - first token) / (tokens - 1)."""
    tokens_per_s: float | None
    stalls: tuple[Stall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What the far side says of its own time, and where it says it."""

    sources: tuple[str, ...] = ()
    queue_ms: float | None = None
    tokenize_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    gateway_ms: float | None = None
    session_ms: float | None = None
    total_ms: float | None = None
    cached_tokens: int | None = None
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StampErrors:
    """Half-widths of the stamps' intervals in microseconds."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """How well this run was measured."""

    clock: Clock
    exact_ratio: float | None
    """Share of events with a certified stamp; None without events."""
    error_us: StampErrors | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One reason, with the rows it rests on."""

    text: str
    spans: tuple[int, ...] = ()
    events: tuple[int, ...] = ()
    """Indexes into `trace.events`."""
    facts: tuple[str, ...] = ()
    """Keys of facts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer to one question. `answer` may be "inconclusive"; it is never invented."""

    question: str
    """where | end-state | buffering | idle ..."""
    answer: str
    confidence: float
    """0..1."""
    estimate: dict[str, Json] = field(default_factory=dict)
    because: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A coded conclusion; `promptpath rule CODE` explains the code."""

    code: str
    severity: Severity
    title: str
    because: tuple[Evidence, ...]
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one trace means."""

    hops: tuple[Hop, ...]
    milestones: Milestones
    latency: Latency
    cadence: Cadence | None
    """None when there was no stream."""
    server: Server
    instrument: Instrument
    end_state: EndState
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...]
    exit_code: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A metric over several runs: median, extremes and the median absolute deviation, in ms."""

    count: int
    median: float
    min: float
    max: float
    mad: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All runs of one command together. `metrics` is keyed by run kind, then by metric name, for
    example metrics["cold"]["ttft_ms"]."""

    runs: int
    metrics: dict[str, dict[str, Spread]]
    exit_code: int
