"""What a vendor's format has to offer, and what it is given: requests in, events out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from reference_server.api.conversation import (
    Conversation,
)
from reference_server.api.events import EventStream
from reference_server.api.fields import Fields
from reference_server.api.sampling import Sampling
from reference_server.api.service import Service
from reference_server.asgi import Header
from reference_server.engine.generation import (
    FailureCode,
    Generation,
    Step,
)
from reference_server.gateway.gateway import Reservation
from reference_server.gateway.headers import LimitStyle
from reference_server.text.prompt import Message
from reference_server.timing import Timeline, final_timings
from reference_server.trips import Trip


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a surface understood of a request."""

    model: str
    messages: list[Message]
    """The conversation, in order; empty when `plain` is given."""
    max_tokens: int | None
    stream: bool
    include_usage: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    plain: str | None = None
    """A text to be continued as it is, instead of a conversation."""
    prompt_param: str = "messages"
    """The field that the prompt stands in."""


class Surface(Protocol):
    """One vendor's way to say the same."""

    request_id_header: bytes
    limit_style: LimitStyle

    def parse(self, fields: Fields) -> ChatRequest:
        """Read the request; raises ApiError 400."""

    def error_body(self, status: int, code: str, message: str, param: str | None) -> Any:
        """An error in the vendor's shape."""

    def writer(self, context: Context, events: EventStream) -> Writer:
        """What writes this request's stream."""

    def document(self, context: Context, steps: list[Step]) -> dict[str, Any]:
        """The whole answer for `stream: false`."""


class Writer(Protocol):
    """One streamed answer in a vendor's events."""

    async def begin(self) -> None:
        """Right after admission, before any token."""

    async def keepalive(self) -> None:
        """Nothing was sent for a while."""

    async def step(self, step: Step) -> None:
        """A step's text."""

    async def finish(self, timings: dict[str, Any] | None) -> None:
        """All that follows the last token, the end marker included."""

    async def fail(self, code: FailureCode) -> None:
        """An error after the head was sent (in-band, under status 200)."""


@dataclass(frozen=True, slots=True)
class Context:
    """One admitted request."""

    service: Service
    request: ChatRequest
    request_id: str
    timeline: Timeline
    generation: Generation
    trip: Trip
    reservation: Reservation
    headers: tuple[Header, ...]
    """Request id, limits and conversation, for the response."""
    conversation: Conversation | None = None

    def timings(self) -> dict[str, Any]:
        """The contract's `timings`, as far as known now."""
        return final_timings(self.timeline, self.generation)


FAILURES: dict[FailureCode, str] = {
    "queue_timeout": "The request waited too long for a free slot.",
    "slow_reader": "The client reads more slowly than the answer is generated.",
    "engine_stopped": "The server is stopping.",
    "cancelled": "The request was cancelled.",
    "engine_error": "The engine failed.",
}
"""What a person is told for each failure code."""
