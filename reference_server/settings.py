"""What a person may set about the server. Frozen; the unit stands in each name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from reference_server.listen.quic_faults import QuicFaults

DEFAULT_TEXT = (
    "A BGP session flaps when the two routers keep losing and re-making the connection between "
    "them. Look at the reason in the last notification first. If the hold timer expired, "
    "keepalives are being lost or delayed: check the link for errors, the CPU of both routers, "
    "and any policer in front of the control plane. If the session drops soon after it comes "
    "up, suspect the path MTU: small keepalives pass, a full update does not. Then compare the "
    "timers, the authentication key, the maximum-prefix limit and the route to the peer address "
    "on both sides. "
)
"""What the paced engine says, over and over. Written by hand; no model made it."""


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """How the paced engine spends time and what it says."""

    base_ms: float = 40.0
    """Prefill time of an empty prompt."""
    prefill_ms_per_token: float = 0.5
    """Prefill time of each prompt token, added to `base_ms`."""
    itl_ms: float = 20.0
    """Time between two decode steps of one request."""
    jitter: float = 0.0
    """Largest random share added to or taken from each wait: 0.1 means +-10 %. Range 0..1."""
    seed: int = 1
    """Seed of the jitter; the same seed gives a request the same waits."""
    tokens_per_step: int = 1
    """Tokens that one decode step gives, as with speculative decoding; one event a step."""
    text: str = DEFAULT_TEXT
    """The answer; cycled until the limit is reached. Must hold at least one token."""
    answer_tokens: int | None = None
    """End with finish reason "stop" after so many tokens; None goes on to the request's limit."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How many requests run, how many may wait, and for how long."""

    slots: int = 4
    """Requests that run at the same time."""
    queue_limit: int = 64
    """Requests that may wait for a slot; one more is refused with 429."""
    queue_timeout_ms: float = 60_000.0
    """Longest wait for a slot; after that the stream ends with an in-band error."""
    backlog_steps: int = 4096
    """Steps kept for a client that reads too slowly; one more ends its request."""


MODEL_SLOTS = 16
"""`slots` with a model, where nothing else is said: twice as many rows give 1.3 times the tokens/s
(measured on two cores: 373 with 16 rows, 482 with 32), and each token waits longer."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What the real engine computes with, in its own process."""

    path: str
    """A GGUF file, or a folder with config.json, tokenizer.json and safetensors."""
    mode: Literal["fast", "fp32", "exact"] = "fast"
    """fast: bfloat16 and the file's four bits; fp32; exact: fp32 in which a token's result depends
    on its own sequence alone, whatever else runs (`--deterministic`)."""
    threads: int | None = None
    """Threads that compute; None: see `compute.threads`."""
    kv_blocks: int = 1024
    """Blocks of 16 tokens in the KV pool: 16,384 tokens, 377 MB with SmolLM2-135M in bfloat16,
    taken from the system as they are first used."""
    token_budget: int = 160
    """Tokens computed in one step. While a prompt of 1,024 tokens joins 4 streams, their longest
    gap on two cores is 282 ms so, with 192 344, with 256 393, without chunks 1,068 (measured)."""
    batching: Literal["continuous", "static"] = "continuous"
    prefix_cache: bool = True
    kv_cache: bool = True
    """False computes every token again in each step, so that what the cache saves can be seen."""


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What the API accepts. The limits are choices, not measurements."""

    model: str = "promptpath-paced"
    context_tokens: int = 1_048_576
    """Longest prompt; a longer one is a 400."""
    max_output_tokens: int = 1_000_000
    """Largest `max_tokens`; a ten-minute stream of 1,000 events/s still fits."""
    default_output_tokens: int = 128
    """`max_tokens` of an OpenAI request that names none."""
    max_body_bytes: int = 16 * 1024 * 1024
    """Largest request body; a longer one is a 413."""
    max_messages: int = 10_000
    """Most messages in one request."""
    keepalive_s: float = 15.0
    """A comment or ping after so long without an event (sse-starlette's default)."""
    retry_after_s: int = 1
    """What a 429 tells the client in Retry-After."""
    api_key_sha256: str | None = None
    """Hex SHA-256 of the one key that may call the API; None lets everybody in."""


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """The listener's address, protocols and time limits.

    The limits are nginx's defaults (client_header_timeout, client_body_timeout, send_timeout,
    keepalive_timeout, lingering_timeout, large_client_header_buffers 4 x 8k,
    http2_max_concurrent_streams), so that the server behaves as people know it.
    """

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free port."""
    http1: bool = True
    http2: bool = True
    http3: bool = False
    """Over QUIC, on the UDP port of the same number; only beside TLS."""
    head_timeout_s: float = 60.0
    body_timeout_s: float = 60.0
    """Longest pause between two pieces of a request body."""
    send_timeout_s: float = 60.0
    """Longest time a write may wait for the client to read or to open its window."""
    keepalive_timeout_s: float = 75.0
    lingering_timeout_s: float = 5.0
    """How long an unread request body is thrown away, so that the client sees the answer."""
    grace_s: float = 5.0
    """How long running streams may go on after a stop was asked for (a choice)."""
    max_head_bytes: int = 32 * 1024
    max_concurrent_streams: int = 128
    body_window_bytes: int = 1024 * 1024
    """Unread request body kept per HTTP/2 or 3 stream and per HTTP/1.1 connection (a choice)."""
    quic_streams: int = 1000
    """Requests that one HTTP/3 connection may have at once; browsers keep to some hundred, a load
    test does not. A choice."""
    quic_idle_timeout_s: float = 600.0
    """`max_idle_timeout`: a connection on which nothing was heard for so long is forgotten, also
    under a silent answer. Longer than the pauses that paths are tested with. A choice."""
    quic_retry: bool = False
    """Let each client prove its address by a Retry: one round trip more."""
    quic_faults: QuicFaults | None = None
    """What is done wrong on purpose; None: nothing."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Who may call and how much; see docs/commands/serve.md."""

    keys: str | None = None
    """The key file; None: no keys but `ServiceSettings.api_key_sha256`."""
    requests_per_minute: int | None = None
    """For callers whose key names no limit of its own; None: unlimited."""
    tokens_per_minute: int | None = None
    """Likewise."""
    redis: str | None = None
    """URL of the Redis that holds limits and conversations; None: this process does."""
    redis_down: Literal["refuse", "allow-local"] = "refuse"
    """When Redis does not answer: 503, or count in this process alone."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Where conversations are kept."""

    sessions: str | None = None
    """SQLite file; "off" keeps none; None: in Redis when there is one, else in the user's state
    folder. The file is made when the first conversation comes."""
    sessions_max_mb: int = 1024
    """Largest size of the file; then nothing more is saved, and the answers say so. A choice."""


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How much the test streams (`/promptpath/calibrate`, `/promptpath/silence`) may cost. Choices:
    an idle pass takes 8 streams of 80 s, a calibration 12 of less than 1 MiB."""

    test_streams: int = 64
    """Test streams at the same time; one more is a 429."""
    test_seconds: float = 3600.0
    """Longest plan of one stream; a longer one is a 400."""
    test_bytes: int = 64 * 1024 * 1024
    """Largest plan of one stream; a larger one is a 400."""


@dataclass(frozen=True, slots=True)
class DelaySettings:
    """Time added to stages on purpose, so that the tool can be judged against it."""

    edge_ms: float = 0.0
    gateway_ms: float = 0.0
    """Added to the stage `limits`."""
    session_ms: float = 0.0
    tokenize_ms: float = 0.0
    queue_ms: float = 0.0
    prefill_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything together; `send_log` and `access_log` are file names or None."""

    pace: PaceSettings = field(default_factory=PaceSettings)
    engine: EngineSettings = field(default_factory=EngineSettings)
    service: ServiceSettings = field(default_factory=ServiceSettings)
    listen: ListenSettings = field(default_factory=ListenSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    sessions: SessionSettings = field(default_factory=SessionSettings)
    delays: DelaySettings = field(default_factory=DelaySettings)
    streams: StreamLimits = field(default_factory=StreamLimits)
    api: bool = True
    """False serves the test streams alone (`--engine none`)."""
    model: ModelSettings | None = None
    """None is the paced engine."""
    send_log: str | None = None
    access_log: str | None = None
    """"-" is standard error."""
