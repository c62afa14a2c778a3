"""Drives one stream: frames in, event rows out; keeps what the stream said about itself.

While the stream runs nothing expensive happens: text is kept (bounded) and its tokens are counted
afterwards, because loading the vocabulary stalls for a quarter of a second.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from promptpath.dialect.base import Dialect, Meaning, StreamError, Timing, Usage
from promptpath.dialect.detect import Detector, Framing
from promptpath.dialect.failures import json_error
from promptpath.dialect.tokens.count import (
    COUNTED,
    ESTIMATE,
    USAGE,
    Count,
    Pieces,
    correct,
    count_source,
)
from promptpath.dialect.tokens.sizes import token_sizes
from promptpath.model import names
from promptpath.model.enums import CONTENT_KINDS, EventKind, FactSource
from promptpath.model.log import EventLog
from promptpath.model.redact import redact_text
from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns
from promptpath.wire.frame import Frame, FrameKind

MAX_FOREIGN_BYTES = 64 * 1024
"""Foreign bytes kept to look for an error document in them; recorded ones are under 4 kB."""
MAX_ERRORS = 8
"""Errors kept of one stream: one says why, more only repeat it."""
_KEPT_CHARS = 300
"""Far-side words in a fact (names.STREAM_ERROR)."""
_LOOKED_AT_CHARS = 4_000
"""How much of such words is searched for secrets before they are cut: a secret that begins among
those kept ends here."""
_COLUMN_MAX = 2**32 - 1
"""The log's columns for sizes are unsigned 32-bit."""
_RUN = 1024
"""Events whose tokens are noted in one row of the log: one each would be 150 MB of rows for 600,000
events, all at once (measured)."""

Known = tuple[str, Json, FactSource]
"""Key, value and source of a fact."""


class EventRow(NamedTuple):
    """One event as `EventLog.add_event` takes it; `tokens` comes later, from `write_tokens`."""

    kind: EventKind
    stamp: Stamp
    first: Stamp
    chars: int
    size_bytes: int
    seq: int | None
    server_ns: int | None
    data: str | None
    text: str | None

    def append_to(self, log: EventLog) -> None:
        """Record it."""
        log.add_event(
            self.kind,
            self.stamp,
            self.first,
            tokens=None,
            chars=self.chars,
            size_bytes=self.size_bytes,
            seq=self.seq,
            server_ns=self.server_ns,
            data=self.data,
            text=self.text,
        )


class StreamMeter:
    """Reads one stream body's frames and adds up what they mean."""

    def __init__(
        self,
        framing: Framing,
        content_type: str,
        *,
        prior: Dialect | None = None,
        forced: Dialect | None = None,
        keep_content: bool = False,
        secrets: tuple[str, ...] = (),
    ) -> None:
        """`prior`: what the URL suggests; `forced`: what the user says; `secrets` are replaced in
        every far-side text that is kept."""
        self.framing = framing
        self._detector = Detector(framing, content_type, prior=prior, forced=forced)
        self._told = forced is not None or prior is not None
        self._keep_content = keep_content
        self._secrets = secrets
        self._pieces: dict[EventKind, Pieces] = {}
        self._foreign = bytearray()
        self._timings: dict[str, Timing] = {}
        self._counts: dict[str, int | float] = {}
        self._no_marker = False
        self.rows = 0
        """Event rows given out so far."""
        self.chars: dict[EventKind, int] = {}
        """Characters by kind of content."""
        self.kinds: dict[EventKind, int] = {}
        """Events by kind."""
        self.malformed = 0
        """Payloads that are not what the dialect sends."""
        self.model: str | None = None
        self.response_id: str | None = None
        self.finish: str | None = None
        self.usage: Usage | None = None
        self.errors: list[StreamError] = []
        self.marker: Stamp | None = None
        """When the terminal event was complete."""
        self.pending_bytes = 0
        """Bytes of a frame that was not finished when the body ended."""

    @property
    def dialect(self) -> Dialect:
        """The dialect as far as known now."""
        return self._detector.detected.dialect

    @property
    def because(self) -> str:
        """What made us think so: option | payload | url | content-type."""
        return self._detector.detected.because

    @property
    def dialect_known(self) -> bool:
        """Whether anything at all (a payload, the URL, the user) says which dialect it is."""
        return self._told or self._detector.seen_payload

    @property
    def marker_expected(self) -> bool:
        """Whether this stream should end with a terminal event."""
        return self.dialect_known and self.dialect.has_end_marker and not self._no_marker

    def feed(self, frame: Frame) -> list[EventRow]:
        """The events of this frame: one, or none for bytes left over at the end."""
        if frame.kind is FrameKind.UNFINISHED:
            self.pending_bytes += frame.size
            self._keep_foreign(frame.data)
            return []
        if frame.kind is FrameKind.FOREIGN:
            self._keep_foreign(frame.data)
        meaning = self._detector.reader(frame).read(frame)
        row = self._row(frame, meaning)
        self._add_content(meaning)
        self._add_words(frame, meaning)
        self.kinds[meaning.kind] = self.kinds.get(meaning.kind, 0) + 1
        self.rows += 1
        return [row]

    def _row(self, frame: Frame, meaning: Meaning) -> EventRow:
        chars = len(meaning.text) + sum(len(text) for _, text in meaning.also)
        data = text = None
        if self._keep_content:
            data = self._without_secrets(frame.data.decode("utf-8", "replace"))
            if meaning.kind in CONTENT_KINDS:
                text = self._without_secrets(meaning.text)
        return EventRow(
            meaning.kind,
            frame.stamp,
            frame.first,
            min(chars, _COLUMN_MAX),
            min(frame.size, _COLUMN_MAX),
            meaning.seq,
            meaning.server_ns,
            data,
            text,
        )

    def _add_content(self, meaning: Meaning) -> None:
        for kind, text in ((meaning.kind, meaning.text), *meaning.also):
            if text:
                self.chars[kind] = self.chars.get(kind, 0) + len(text)
                self._pieces.setdefault(kind, Pieces()).add(self.rows, text)

    def _add_words(self, frame: Frame, meaning: Meaning) -> None:
        self.model = self.model or meaning.model
        self.response_id = self.response_id or meaning.response_id
        self.finish = meaning.finish or self.finish
        if meaning.usage is not None:
            self.usage = _merged(self.usage, meaning.usage)
        if meaning.error is not None and len(self.errors) < MAX_ERRORS:
            self.errors.append(meaning.error)
        if meaning.is_end and self.marker is None:
            self.marker = frame.stamp
        self._no_marker = self._no_marker or meaning.no_marker
        self.malformed += meaning.detail.get("malformed") is True
        for timing in meaning.timings:
            self._timings[timing.name] = timing
        for name, value in meaning.counts:
            if name == "batch":
                value = max(value, self._counts.get(name, 0))
            self._counts[name] = value

    def _keep_foreign(self, data: bytes) -> None:
        room = MAX_FOREIGN_BYTES - len(self._foreign)
        if room > 0:
            self._foreign += data[:room] + b"\n"

    # -- after the end ---------------------------------------------------------------------------

    def texts(self) -> list[bytes]:
        """The text of each kind of content as far as it was kept, UTF-8: what `token_sizes` is to
        be asked about."""
        return [pieces.text for pieces in self._pieces.values()]

    def token_counts(self, sizes: Sequence[bytes]) -> tuple[array[int], array[int]]:
        """Row numbers of the events with content, and the tokens of each; `sizes` are those of
        `texts()`."""
        rows, tokens = array("I"), array("I")
        kinds = zip(self._pieces.values(), sizes, strict=True)
        for row, number in merge(*(pieces.counts(of_kind) for pieces, of_kind in kinds)):
            if rows and rows[-1] == row:
                tokens[-1] += number
            else:
                rows.append(row)
                tokens.append(number)
        return rows, tokens

    def write_tokens(
        self, log: EventLog, first_row: int = 0, sizes: Sequence[bytes] | None = None
    ) -> Count | None:
        """Note the tokens of each event in the log, where this stream's first event has number
        `first_row`, and let go of the text. `sizes` as for `token_counts`; None: cut the text here,
        which loads the vocabulary. The result is our own count, whatever `usage` says; None for a
        stream without content."""
        rows, counted = self.token_counts(token_sizes(self.texts()) if sizes is None else sizes)
        if not rows:
            return None
        source, per_event = self._count_source(), COUNTED
        tokens = counted
        if source == ESTIMATE:
            tokens, per_event = correct(counted, self._streamed_usage())
        for first, run in _runs(rows, tokens):
            log.set_event_tokens(first_row + first, run)
        self._pieces.clear()
        return Count(sum(counted), source, per_event)

    def _streamed_usage(self) -> int | None:
        """Output tokens by `usage` without reasoning that was not sent."""
        if self.usage is None or self.usage.output_tokens is None:
            return None
        hidden = 0 if EventKind.REASONING in self.chars else self.usage.reasoning_tokens or 0
        return self.usage.output_tokens - hidden

    def prompt_tokens(self, counted: int) -> Count | None:
        """The tokens of the prompt: what `usage` says (all of the input, the chat template
        included), else the number counted; None for no prompt and no usage."""
        if self.usage is not None and self.usage.input_tokens is not None:
            return Count(self.usage.input_tokens, USAGE)
        source = count_source(self.dialect.vocabulary, self.model)
        return Count(counted, source) if counted else None

    def _count_source(self) -> str:
        if not all(pieces.whole for pieces in self._pieces.values()):
            return ESTIMATE
        return count_source(self.dialect.vocabulary, self.model)

    def finish_facts(self, end_ns: Ns | None, counted: Count | None = None) -> list[Known]:
        """What the stream said and how it ended, as facts; `end_ns`: when the response ended (None:
        it did not); `counted`: the result of `write_tokens`."""
        if not self.errors and (error := json_error(bytes(self._foreign))) is not None:
            self.errors.append(error)
        return [*self._observed(end_ns, counted), *self._reported()]

    def _observed(self, end_ns: Ns | None, counted: Count | None) -> Iterator[Known]:
        yield names.STREAM_FRAMING, self.framing.value, FactSource.OBSERVED
        if self.dialect_known:
            value = {"name": self.dialect.name, "because": self.because}
            yield names.STREAM_DIALECT, value, FactSource.INFERRED
        after_ns = None
        if self.marker is not None and end_ns is not None:
            after_ns = max(0, end_ns - self.marker.at_ns)
        end: dict[str, Json] = {
            "marker_expected": self.marker_expected,
            "marker_seen": self.marker is not None,
            "pending_bytes": self.pending_bytes,
            "after_marker_ns": after_ns,
        }
        yield names.STREAM_END, end, FactSource.OBSERVED
        if counted is not None:
            yield names.OUTPUT_TOKENS, count_value(counted), FactSource.INFERRED

    def _reported(self) -> Iterator[Known]:
        for key, text in (
            (names.STREAM_MODEL, self.model),
            (names.STREAM_RESPONSE_ID, self.response_id),
            (names.STREAM_FINISH, self.finish),
        ):
            if text is not None:
                yield key, self._clean(text), FactSource.REPORTED
        for error in self.errors:
            yield names.STREAM_ERROR, error_value(error, self._secrets), FactSource.REPORTED
        if (usage := self.usage) is not None:
            value: dict[str, Json] = {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "reasoning_tokens": usage.reasoning_tokens,
                "cached_tokens": usage.cached_tokens,
            }
            yield names.STREAM_USAGE, value, FactSource.REPORTED
        for timing in self._timings.values():
            yield names.SERVER_TIMING, timing_value(timing), FactSource.REPORTED
        for name, number in self._counts.items():
            yield names.SERVER_COUNT, {"name": name, "value": number}, FactSource.REPORTED

    def _clean(self, text: str) -> str:
        return redact_text(text[:_LOOKED_AT_CHARS], secrets=self._secrets, limit=_KEPT_CHARS)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            if secret:
                text = text.replace(secret, "REDACTED")
        return text


def error_value(error: StreamError, secrets: tuple[str, ...] = ()) -> dict[str, Json]:
    """An error as names.STREAM_ERROR has it: redacted, printable, cut."""

    def clean(text: str | None) -> str | None:
        return redact_text(text, secrets=secrets, limit=_KEPT_CHARS) if text else None

    return {
        "code": clean(error.code),
        "type": clean(error.type),
        "message": clean(error.message) or "",
        "shape": error.shape,
    }


def count_value(counted: Count) -> dict[str, Json]:
    """Our own count as names.OUTPUT_TOKENS has it."""
    return {
        "counted": counted.tokens,
        "source": counted.source,
        "per_event": counted.per_event,
    }


def timing_value(timing: Timing) -> dict[str, Json]:
    """A reported time as names.SERVER_TIMING has it."""
    return {
        "scope": timing.scope,
        "duration_ns": timing.duration_ns,
        "name": redact_text(timing.name, limit=100),
        "place": timing.place,
    }


def _runs(rows: array[int], tokens: array[int]) -> Iterator[tuple[int, list[int | None]]]:
    """The same as stretches of consecutive events, (first row, tokens of each): None stands for an
    event without content."""
    first, run = 0, list[int | None]()
    for row, number in zip(rows, tokens, strict=True):
        if run and row - first >= _RUN:
            yield first, run
            run = []
        if not run:
            first = row
        run += [None] * (row - first - len(run))
        run.append(number)
    if run:
        yield first, run


def _merged(old: Usage | None, new: Usage) -> Usage:
    """The last snapshot wins, field by field: Anthropic sends input and output apart."""
    if old is None:
        return new
    return Usage(
        input_tokens=_newer(new.input_tokens, old.input_tokens),
        output_tokens=_newer(new.output_tokens, old.output_tokens),
        reasoning_tokens=_newer(new.reasoning_tokens, old.reasoning_tokens),
        cached_tokens=_newer(new.cached_tokens, old.cached_tokens),
    )


def _newer(new: int | None, old: int | None) -> int | None:
    return old if new is None else new
