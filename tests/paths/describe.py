"""The format of fixtures/paths/*.toml: a server, the hops between it and the client, what must be
found.

Hops stand in the order of the trip, the client first. Lengths are ms, sizes bytes, all one-way.
An unknown key is an error. docs/concepts/paths.md explains the format with an example.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

import msgspec

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "paths"


class Reported(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the server says of its own time."""

    queue_ms: float | None = None
    tokenize_ms: float | None = None
    prefill_ms: float | None = None
    decode_ms: float | None = None
    gateway_ms: float | None = None


class Server(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the server does once the request has arrived, on its own clock."""

    dialect: str = "openai-chat"
    status: int = 200
    headers_ms: float = 1
    """The response head leaves."""
    ttft_ms: float = 200
    """The first token leaves."""
    tokens: int = 40
    tokens_per_event: int = 1
    itl_ms: float = 20
    """Between tokens; an event leaves when its last token is there."""
    reasoning_tokens: int = 0
    """How many of the tokens, the first ones, are reasoning."""
    keepalive_ms: float | None = None
    """Between comment keepalives before the first token."""
    pause_after: int | None = None
    """After this many events ..."""
    pause_ms: float = 0
    """... nothing is sent for this long."""
    event_bytes: int = 200
    finish: str | None = "stop"
    marker: bool = True
    close: Literal["clean", "fin", "rst"] = "clean"
    fail_after: int | None = None
    """After this many events an error event comes, and nothing else."""
    cut_after: int | None = None
    """After this many events the connection ends (see `close`)."""
    stamps: bool = False
    """Each event carries its send time."""
    reported: Reported = msgspec.field(default_factory=Reported)
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class Client(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The client's side of the trip."""

    dns_ms: float = 2
    request_bytes: int = 600
    hello_retry: bool = False
    tls_compute_ms: float = 2
    error_us: float = 0.3
    """Half-width of every stamp."""


class Hop(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A link, or a proxy that ends TCP and TLS and sends on what it reads."""

    kind: Literal["link", "proxy"] = "link"
    name: str = ""
    delay_ms: float = 0
    """Link: one way, both ways alike."""
    loss: float = 0
    """Link: share of the answer's packets that are lost and come again a round trip later."""
    seed: int = 1
    rate_bytes_per_s: float | None = None
    """Link: towards the server."""
    buffer_bytes: int | None = None
    """Proxy: sends on only when this much has come, or at the end."""
    timer_ms: float | None = None
    """Proxy: sends on what it has this long after the first byte of it."""
    hold_one: bool = False
    """Proxy: keeps each event until the next one comes."""
    idle_cut_ms: float | None = None
    """Proxy: ends the connection when nothing came from the server for this long."""


class Expect(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the report must say."""

    where: str
    end_state: str = "complete"
    exit_code: int = 0
    findings: list[str] = []
    """Codes that must be there."""
    absent: list[str] = []
    """Codes that must not."""
    ttft_ms: tuple[float, float] | None = None
    """Lowest and highest."""
    hops: dict[str, float] = {}
    """Stage to length, to 1 %; "queue" and the like are those within `wait`."""


class Description(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One file."""

    title: str
    server: Server = msgspec.field(default_factory=Server)
    client: Client = msgspec.field(default_factory=Client)
    hops: list[Hop] = []
    expect: Expect


def read_description(path: Path) -> Description:
    """The path described in a file. Raises msgspec.ValidationError naming the first wrong key."""
    return msgspec.convert(tomllib.loads(path.read_text("utf-8")), Description)
