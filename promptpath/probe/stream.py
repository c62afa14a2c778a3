"""A response body as it arrives: content decoding, framing, meaning; every piece recorded with its
stamp."""

from __future__ import annotations

from promptpath.dialect.base import Dialect
from promptpath.dialect.detect import Framing, framer_for, framing_of
from promptpath.dialect.failures import error_body, error_under_success
from promptpath.dialect.meter import StreamMeter, count_value, error_value
from promptpath.dialect.registry import by_name, by_url
from promptpath.dialect.tokens.count import USAGE
from promptpath.model.enums import CONTENT_KINDS, FactSource, Layer
from promptpath.model.names import (
    HTTP_CONTENT_DECODER,
    HTTP_ERROR_BODY,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    STREAM_ERROR,
    STREAM_FRAMING,
)
from promptpath.model.plan import Plan, Target
from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns
from promptpath.probe.recorder import Recorder
from promptpath.probe.token_process import token_sizes_elsewhere
from promptpath.wire.content_coding import decoder_for
from promptpath.wire.frame import Frame, Framer
from promptpath.wire.http import Head

ERROR_BODY_BYTES = 256 * 1024
"""How much of a body that is no stream is kept to find an error's words in (the same bound as
`dialect.failures`: recorded ones are under 10 kB)."""


class BodyReader:
    """Reads one response body."""

    def __init__(
        self, recorder: Recorder, plan: Plan, target: Target, head: Head, span: int | None
    ) -> None:
        headers = dict(head.headers)
        self._recorder = recorder
        self._plan = plan
        self._target = target
        self._span = span
        self._status = head.status
        self._content_type = headers.get("content-type", "")
        self._decoder = decoder_for(headers.get("content-encoding", ""))
        self._framing: Framing | None = None
        self._framer: Framer | None = None
        self._document = bytearray()
        self._offset = 0
        self._first_row = len(recorder.log.events)
        self._last_stamp: Stamp | None = None
        self.meter: StreamMeter | None = None
        self.body_bytes = 0
        """Body bytes so far, after content decoding."""
        self.content_events = 0
        """Events with content so far."""

    @property
    def marker(self) -> Stamp | None:
        """When the dialect's terminal event was complete."""
        return self.meter.marker if self.meter is not None else None

    def feed(self, data: bytes, stamp: Stamp) -> None:
        """Body bytes as HTTP framed them."""
        if self._decoder is not None:
            data = self._decoder.feed(data, self._room())
        if data:
            self._take(data, stamp)

    def end(self, end_ns: Ns | None) -> None:
        """The body is over (`end_ns` None: it was cut); what it said becomes facts."""
        if self._framer is not None and self._last_stamp is not None:
            self._frames(self._framer.end(self._last_stamp))
        decoder = self._decoder
        if decoder is not None:
            decoder.end()
            self._recorder.observed(
                HTTP_CONTENT_DECODER,
                {
                    "encoding": decoder.encoding,
                    "encoded_bytes": decoder.encoded_bytes,
                    "decoded_bytes": decoder.decoded_bytes,
                    "error": decoder.error,
                },
            )
        if self.meter is not None:
            for key, value, source in self.meter.finish_facts(end_ns):
                self._recorder.fact(key, value, source, self._span)
        elif self._framing is not None:
            self._recorder.observed(STREAM_FRAMING, self._framing.value, self._span)
        self._read_error()

    def count_tokens(self) -> None:
        """Count the content's and the prompt's tokens, off the critical path: it takes half a
        second."""
        if self.meter is None:
            return
        asked = self._plan.prompt if self._plan.method == "POST" else ""
        *sizes, of_prompt = token_sizes_elsewhere(
            [*self.meter.texts(), asked.encode("utf-8", "replace")]
        )
        counted = self.meter.write_tokens(self._recorder.log, self._first_row, sizes)
        if counted is not None:
            value = count_value(counted)
            self._recorder.fact(OUTPUT_TOKENS, value, FactSource.INFERRED, self._span)
        prompt = self.meter.prompt_tokens(len(of_prompt))
        if prompt is not None:
            source = FactSource.REPORTED if prompt.source == USAGE else FactSource.INFERRED
            value = {"count": prompt.tokens, "source": prompt.source}
            self._recorder.fact(PROMPT_TOKENS, value, source, self._span)

    # -- inside ----------------------------------------------------------------------------------

    def _room(self) -> int | None:
        most = self._plan.limits.max_bytes
        # One byte more than allowed, so that the limit is seen to be passed.
        return None if most is None else max(0, most - self.body_bytes) + 1

    def _take(self, data: bytes, stamp: Stamp) -> None:
        self._last_stamp = stamp
        if self._framing is None:
            self._settle(data)
        if self._framer is not None:
            self._frames(self._framer.feed(data, stamp))
        elif len(self._document) < ERROR_BODY_BYTES:
            self._document += data[: ERROR_BODY_BYTES - len(self._document)]
        self._recorder.log.add_arrival(
            Layer.BODY,
            stamp,
            span=self._span,
            offset=self._offset,
            size=len(data),
            pending=self._framer.pending if self._framer is not None else None,
        )
        self._offset += len(data)
        self.body_bytes += len(data)

    def _settle(self, head: bytes) -> None:
        """What kind of body this is, from its type and its first bytes."""
        self._framing = framing_of(self._content_type, head)
        self._framer = framer_for(self._framing)
        if self._framer is None:
            return
        prior = by_url(self._target.host, self._target.path)
        self.meter = StreamMeter(
            self._framing,
            self._content_type,
            prior=prior,
            forced=_forced(self._plan, prior),
            keep_content=self._plan.keep_content,
            secrets=self._recorder.secrets,
        )

    def _frames(self, frames: list[Frame]) -> None:
        if self.meter is None:
            return
        log = self._recorder.log
        for frame in frames:
            for row in self.meter.feed(frame):
                row.append_to(log)
                if row.kind in CONTENT_KINDS:
                    self.content_events += 1

    def _read_error(self) -> None:
        """The words of an error response that was no stream, or of an error document that came
        under a successful status."""
        body = bytes(self._document)
        if self._status < 400:
            if self._framing is Framing.JSON and self._plan.method == "POST":
                found = error_under_success(body)
                if found is not None:
                    value = error_value(found, self._recorder.secrets)
                    self._recorder.reported(STREAM_ERROR, value, self._span)
            return
        error = error_body(self._content_type, body) if body else None
        if error is not None:
            self._recorder.reported(
                HTTP_ERROR_BODY,
                {
                    "type": self._clean(error.type),
                    "code": self._clean(error.code),
                    "message": self._clean(error.message),
                },
                self._span,
            )

    def _clean(self, text: str | None) -> str | None:
        return None if text is None else self._recorder.clean(text)


def _forced(plan: Plan, prior: Dialect | None) -> Dialect | None:
    """The dialect that --dialect names; the one that the URL suggests is no order."""
    if plan.dialect is None or (prior is not None and prior.name == plan.dialect):
        return None
    return by_name(plan.dialect)
