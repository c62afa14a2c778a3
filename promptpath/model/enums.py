"""The closed vocabularies of the trace and the report. Adding a word here is a schema change."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """One stage of the prompt's trip. The first nine are top-level hops, in the order of the trip;
    the rest stand `within` one of them."""

    DNS = "dns"
    PROXY = "proxy"
    TCP = "tcp"
    TLS = "tls"
    QUIC = "quic"
    REQUEST = "request"
    WAIT = "wait"
    GENERATION = "generation"
    FINISH = "finish"

    EDGE = "edge"
    GATEWAY = "gateway"
    SESSION = "session"
    TOKENIZE = "tokenize"
    QUEUE = "queue"
    PREFILL = "prefill"
    RETURN = "return"
    DECODE = "decode"
    HOLD = "hold"
    STALL = "stall"


TOP_LEVEL_STAGES: tuple[Stage, ...] = (
    Stage.DNS,
    Stage.PROXY,
    Stage.TCP,
    Stage.TLS,
    Stage.QUIC,
    Stage.REQUEST,
    Stage.WAIT,
    Stage.GENERATION,
    Stage.FINISH,
)
"""The disjoint hops of the critical path, in order."""


class Outcome(StrEnum):
    """How an attempt ended."""

    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class Clock(StrEnum):
    """Where an instant was taken: by the kernel at arrival, or by us after the system call."""

    KERNEL = "kernel"
    USER = "user"


class Layer(StrEnum):
    """At which layer bytes were seen to arrive."""

    DATAGRAM = "datagram"
    SEGMENT_READ = "segment-read"
    TLS_RECORD = "tls-record"
    HTTP_FRAME = "http-frame"
    BODY = "body"


class EventKind(StrEnum):
    """What a frame of the stream means in its dialect."""

    TEXT = "text"
    REASONING = "reasoning"
    REFUSAL = "refusal"
    TOOL = "tool"
    USAGE = "usage"
    PING = "ping"
    COMMENT = "comment"
    ROLE = "role"
    ERROR = "error"
    FINISH = "finish"
    END = "end"
    UNKNOWN_FIELD = "unknown-field"
    FOREIGN_BYTES = "foreign-bytes"
    OTHER = "other"


CONTENT_KINDS: frozenset[EventKind] = frozenset(
    {EventKind.TEXT, EventKind.REASONING, EventKind.REFUSAL, EventKind.TOOL}
)
"""Events that carry something the model made: gaps between them are inter-event gaps."""

VISIBLE_KINDS: frozenset[EventKind] = frozenset({EventKind.TEXT})
"""Events a reader of the answer sees: the first one ends TTFT. A refusal, a tool call or hidden
reasoning alone leave TTFT at "never"."""

KEEPALIVE_KINDS: frozenset[EventKind] = frozenset({EventKind.PING, EventKind.COMMENT})
"""Events that only keep the connection alive."""


class FactSource(StrEnum):
    """How we know a thing: we measured it, the far side says so, or we conclude it."""

    OBSERVED = "observed"
    REPORTED = "reported"
    INFERRED = "inferred"


class Severity(StrEnum):
    """How bad a finding is; only `error` changes the exit code."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class EndState(StrEnum):
    """How the stream ended. Transport and dialect must agree for `complete`."""

    COMPLETE = "complete"
    """The dialect's terminal event was seen, and the transport ended cleanly."""
    NO_END_MARKER = "no-end-marker"
    """A finish reason and a clean transport end, but not the terminal event the dialect has."""
    TRUNCATED = "truncated"
    """Neither finish nor terminal event, or bytes of an unfinished event were pending."""
    ERROR_IN_STREAM = "error-in-stream"
    """The far side reported an error after the head."""
    OPEN_AFTER_MARKER = "open-after-marker"
    """The terminal event came, the far side did not end the response."""
    STOPPED_BY_US = "stopped-by-us"
    """A limit of ours (time, bytes) or Ctrl-C ended it."""
    NOT_A_STREAM = "not-a-stream"
    """The response was no AI stream (a page, a JSON document)."""
    NO_RESPONSE = "no-response"
    """No response head arrived."""
