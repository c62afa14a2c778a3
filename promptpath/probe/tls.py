"""TLS as a link over any link: one record at a time, so that every record, handshake message and
piece of plaintext has its own stamp. TLS in TLS (an HTTPS proxy) is two of them.

OpenSSL works on memory buffers (`ssl.MemoryBIO`); sockets, waiting and time stay below.
"""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import replace
from typing import Final, Protocol, TypeVar, runtime_checkable

from promptpath.errors import MeasureError
from promptpath.model.enums import Layer, Stage
from promptpath.model.names import (
    SPAN_HANDSHAKE,
    SPAN_PROXY_TLS,
    TLS_VERIFY,
)
from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns
from promptpath.probe import tls_failure
from promptpath.probe.certificates import Verdict, verdict_fact
from promptpath.probe.link import Chunk, Closed, Link, Sent
from promptpath.probe.recorder import Recorder
from promptpath.probe.tls_certificates import check_name, record_certificates
from promptpath.probe.tls_context import (
    ObservedTls,
    TlsSettings,
    TlsTarget,
    context_for,
    has_message_hook,
)
from promptpath.probe.tls_failure import FailureContext
from promptpath.probe.tls_flights import Flights
from promptpath.probe.tls_observer import ClearMessages, HandshakeObserver
from promptpath.wire.tls_records import CHANGE_CIPHER_SPEC, RecordSplitter, TlsRecord

_Item = TypeVar("_Item", bound=Chunk | Closed)
_READ_BYTES: Final = 1 << 14
"""Most plaintext of one record (RFC 8446 section 5.1)."""


@runtime_checkable
class Layered(Protocol):
    """A link over another one."""

    @property
    def below(self) -> Link:
        """That one."""


class TlsLink:
    """A `Link` that encrypts. Made by `handshake`.

    `receive` tells how the peer ended: `close-notify` (RFC 8446 section 6.1: nothing is missing), a
    bare `fin` (a truncation, perhaps an attack), `rst`, or `error` (a fatal alert, bytes that are
    no TLS).
    """

    def __init__(
        self,
        recorder: Recorder,
        link: Link,
        target: TlsTarget,
        *,
        stage: Stage,
        prefix: str,
        session: ssl.SSLSession | None = None,
        quiet: bool = False,
    ) -> None:
        """`session` is offered for resumption; `quiet` records marks but no facts."""
        self._recorder = recorder
        self._link = link
        self.target = target
        self.conn = link.conn
        self._stage = stage
        self._prefix = prefix
        self.observer = HandshakeObserver(
            recorder, stage=stage, prefix=prefix, conn=link.conn, quiet=quiet
        )
        self._context = FailureContext(stage, target.name, self.observer)
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = self._engine(session)
        self._records = RecordSplitter()
        self._clear: ClearMessages | None = None
        if has_message_hook():
            self._tls.on_message = self.observer.message
        else:
            self._clear = ClearMessages(self.observer)
        self._sent_records = RecordSplitter()
        self._span: int | None = None
        self._done = False
        self._ready: list[Chunk | Closed] = []
        self._closed: Closed | None = None
        self._flights = Flights(link, self.observer, prefix)
        self._plaintext_bytes = 0
        self._certificates_recorded = False
        self._summarized = False
        self._verdict: Verdict | None = None
        self._write_error: ssl.SSLError | None = None

    def _engine(self, session: ssl.SSLSession | None) -> ObservedTls:
        target = self.target
        context = context_for(target.settings)
        # The context is shared; OpenSSL copies the list when the connection object is made.
        context.set_alpn_protocols(list(target.alpn))
        name = target.name if target.settings.named else None
        try:
            engine = context.wrap_bio(
                self._incoming, self._outgoing, server_hostname=name, session=session
            )
        except (ValueError, UnicodeError):
            raise self._context.error(
                "the host cannot be named in a TLS handshake",
                "bad-name",
                expected="labels of at most 63 characters (RFC 1035 section 2.3.4)",
                hint="check the URL's host and --sni",
            ) from None
        assert isinstance(engine, ObservedTls)
        return engine

    # -- the handshake ---------------------------------------------------------------------------

    async def shake_hands(self, deadline_ns: Ns, *, span_name: str, parent: int | None) -> None:
        """Do the handshake inside a span of its own: from our ClientHello written to the instant
        application data may be sent (our Finished; with TLS 1.2 the server's). Raises MeasureError;
        the link below is then the caller's to close."""
        self._advance()
        try:
            with self._recorder.span(self._stage, span_name, parent=parent, conn=self.conn) as span:
                self._span = self.observer.span = span
                await self._shake(deadline_ns)
        except BaseException:
            self._failed()
            raise

    async def _shake(self, deadline_ns: Ns) -> None:
        try:
            self._flush()
            await self._exchange(deadline_ns)
            check_name(self._tls, self.target)
        except ssl.SSLError as error:
            self._flush()  # The alert that tells the server why
            self.observer.settle()
            if isinstance(error, ssl.SSLCertVerificationError):
                self._verdict = Verdict(error.verify_code, error.verify_message)
            raise tls_failure.engine_failure(self._context, error) from None

    async def _exchange(self, deadline_ns: Ns) -> None:
        while not self._done:
            try:
                items = await self._link.receive(deadline_ns)
            except TimeoutError:
                self.observer.settle()
                raise tls_failure.timed_out(self._context, self._records.pending) from None
            for item in items:
                self._take(item)
            self._flush()
            self._flights.note()
            if self._closed is not None and not self._done:
                self.observer.settle()
                fault = self._records.fault
                if fault is not None:
                    raise tls_failure.not_tls(self._context, fault)
                raise tls_failure.closed(self._context, self._closed.how, self._closed.detail)
        if self._clear is not None:
            self._clear.finish(sent=True)

    def _advance(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        self._done = True
        if self._clear is not None:
            self._clear.finish(sent=False)

    def _failed(self) -> None:
        """Record what a failed handshake showed."""
        self._summarized = True
        self.observer.settle()
        self.observer.summarize(offered=self.target.alpn)
        if self._verdict is not None:
            self.observer.fact(TLS_VERIFY, verdict_fact(self._verdict))
            self.record_certificates()

    def _settle(self) -> None:
        """Record what messages said, and after a good handshake its facts: done when there is time,
        which is while we wait for the peer, and before the link is let go."""
        self.observer.settle()
        if self._summarized or not self._done:
            return
        self._summarized = True
        self.observer.alpn = self._tls.selected_alpn_protocol()
        self.observer.summarize(offered=self.target.alpn)
        if not self.target.settings.insecure:
            self.observer.fact(TLS_VERIFY, verdict_fact(Verdict(0, None)))

    # -- what came -------------------------------------------------------------------------------

    def _take(self, item: Chunk | Closed) -> None:
        if self._closed is not None:
            return
        if isinstance(item, Closed):
            self._lower_closed(item)
            return
        for record in self._records.feed(item.data, item.stamp):
            self._recorder.log.add_arrival(
                Layer.TLS_RECORD,
                record.stamp,
                span=self._span,
                offset=record.offset,
                size=len(record.data),
            )
            self._record(record)
        if self._records.fault is not None and self._closed is None:
            what = f"no TLS record (wrong {self._records.fault.why})"
            self._end(Closed("error", item.stamp, what))

    def _record(self, record: TlsRecord) -> None:
        if self._closed is not None:
            return
        self.observer.received_at = record.stamp
        if self._clear is not None:
            self._clear.record(record, sent=False)
        elif record.content_type == CHANGE_CIPHER_SPEC:
            # OpenSSL shows ours only.
            self.observer.message(False, CHANGE_CIPHER_SPEC, record.fragment)
        self._incoming.write(record.data)
        if not self._done:
            self._advance()
            return
        try:
            self._read(record.stamp)
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            self._end(Closed("error", record.stamp, self._reason(error)))

    def _read(self, stamp: Stamp) -> None:
        """The plaintext of the one record fed: it is in one piece unless the record is oversized,
        so a second read, and the exception that ends it, are saved."""
        while True:
            data = self._tls.read(_READ_BYTES)
            if not data:
                # The peer's close_notify.
                self._end(Closed("close-notify", stamp))
                return
            self._plaintext_bytes += len(data)
            self._ready.append(Chunk(data, stamp))
            if not self._tls.pending():
                return

    def _reason(self, error: ssl.SSLError) -> str:
        self.observer.settle()
        alert = self.observer.fatal_alert
        if alert is not None:
            return f"TLS alert {alert.description}"
        return (error.reason or type(error).__name__).replace("_", " ").lower()

    def _lower_closed(self, closed: Closed) -> None:
        """The layer below ended. Its own close_notify (TLS in TLS) says nothing of ours."""
        how, detail = closed.how, closed.detail
        if how == "close-notify":
            how, detail = "fin", "the TLS connection below was closed in order"
        pending = self._records.pending
        if pending:
            detail = f"{detail}; inside a record" if detail else "inside a record"
        self._end(Closed(how, closed.stamp, detail))

    def _end(self, closed: Closed) -> None:
        self._closed = closed
        if self._done:
            self._ready.append(closed)

    # -- what goes -------------------------------------------------------------------------------

    def _flush(self, mark: str | None = None) -> None:
        """Hand OpenSSL's output to the link below."""
        data = self._outgoing.read()
        if not data and mark is None:
            return
        if self._clear is not None:
            for record in self._sent_records.feed(data, self._recorder.clock.user_stamp()):
                self._clear.record(record, sent=True)
        if self.observer.has_unsent:
            self._flights.write(data, mark, self._recorder.clock)
        else:
            self._link.write(data, mark)

    # -- Link ------------------------------------------------------------------------------------

    def write(self, data: bytes, mark: str | None = None) -> None:
        """Encrypt and queue; the mark is on the last byte of the last record."""
        view = memoryview(data)
        try:
            while view:
                view = view[self._tls.write(view) :]
        except ssl.SSLError as error:
            self._write_error = error
        self._flush(mark)

    async def drain(self) -> None:
        """Wait until everything was handed to the kernel. Raises MeasureError."""
        if self._write_error is not None:
            raise self._context.error(
                f"TLS cannot send any more: {self._reason(self._write_error)}", "closed"
            )
        await self._link.drain()

    async def receive(self, deadline_ns: Ns | None = None) -> list[Chunk | Closed]:
        """Plaintext by record, or how the peer ended. Raises TimeoutError past the deadline."""
        while not self._ready:
            if self._closed is not None:
                return [self._closed]
            self._settle()
            for item in await self._link.receive(deadline_ns):
                self._take(item)
            self._flush()
            self._flights.note()
        ready, self._ready = self._ready, []
        return ready

    def sent(self, mark: str) -> Sent:
        """What is known of the marked byte (the end of the record that carries it)."""
        return self._link.sent(mark)

    async def sent_wire(self, mark: str, deadline_ns: Ns) -> Sent:
        """`sent`, once the wire stamp is known or the deadline passed."""
        return await self._link.sent_wire(mark, deadline_ns)

    def info(self) -> dict[str, int] | None:
        """TCP_INFO of the connection below."""
        return self._link.info()

    async def close(self) -> None:
        """Say close_notify, then close the link below; never raises."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush()
        await self._link.close()
        self._flights.note()
        self._settle()

    def abort(self) -> None:
        """Close at once, without close_notify."""
        self._link.abort()
        self._settle()

    # -- facts -----------------------------------------------------------------------------------

    @property
    def below(self) -> Link:
        """The link that carries the records."""
        return self._link

    def set_span(self, span: int | None) -> None:
        """The span that records which come from now on belong to."""
        self._span = span

    def rebind(self, recorder: Recorder) -> None:
        """Go on in another run (a warm request on this connection), as the link below does."""
        self._settle()
        self._link.rebind(recorder)
        shift_ns = self._recorder.clock.t0_monotonic_ns - recorder.clock.t0_monotonic_ns
        self._ready = [_shifted(item, shift_ns) for item in self._ready]
        if self._closed is not None:
            self._closed = _shifted(self._closed, shift_ns)
        self.conn = self._link.conn
        self._recorder = recorder
        self._span = None
        self._flights.forget()
        self.observer.rebind(recorder, self.conn)

    @property
    def alpn(self) -> str | None:
        """The protocol agreed on."""
        return self._tls.selected_alpn_protocol()

    @property
    def session(self) -> ssl.SSLSession | None:
        """What a second connection can offer, once the server gave a ticket (TLS 1.3: after the
        handshake, as it is read) or a session id (TLS 1.2)."""
        session = self._tls.session
        if session is None or not (session.has_ticket or (session.id and not self.observer.tls13)):
            return None
        return session

    @property
    def resumed(self) -> bool:
        """Whether the server took the session offered."""
        return bool(self._tls.session_reused)

    @property
    def failure(self) -> MeasureError | None:
        """Why the server ended the connection after the handshake, where TLS says so: TLS 1.3
        servers judge a missing client certificate only then (RFC 8446 section 4.4.2.4)."""
        self._settle()
        observer = self.observer
        if self._closed is None or self._closed.how == "close-notify":
            return None
        if observer.fatal_alert is not None:
            return tls_failure.alert(self._context, observer.fatal_alert.description)
        if observer.client_certificate_requested and not self._plaintext_bytes:
            return tls_failure.closed(self._context, self._closed.how, self._closed.detail)
        return None

    def record_certificates(self) -> None:
        """Record the chain and, with --insecure, what verification would have said. Slow (tens of
        milliseconds): for after the run. Does it once; a failed handshake did it already."""
        if not self._certificates_recorded:
            self._certificates_recorded = True
            self._settle()
            record_certificates(
                self.observer, self._tls, self.target, self._recorder.clock, done=self._done
            )


def record_certificates_of(link: Link) -> None:
    """`TlsLink.record_certificates` for every TLS layer of a connection, the proxy's included."""
    layer: object = link
    while isinstance(layer, Layered):
        if isinstance(layer, TlsLink):
            layer.record_certificates()
        layer = layer.below


def _shifted(item: _Item, by_ns: Ns) -> _Item:
    """The item with its instants on another run's clock."""
    old = item.stamp
    stamp = replace(old, at_ns=old.at_ns + by_ns, lo_ns=old.lo_ns + by_ns, hi_ns=old.hi_ns + by_ns)
    return replace(item, stamp=stamp)


async def handshake(
    recorder: Recorder,
    link: Link,
    *,
    host: str,
    sni: str | None,
    alpn: tuple[str, ...],
    ca_file: str | None,
    insecure: bool,
    keylog_file: str | None,
    session: ssl.SSLSession | None = None,
    deadline_ns: Ns,
    stage: Stage = Stage.TLS,
    prefix: str = "tls.",
    parent: int | None = None,
) -> TlsLink:
    """Shake hands over `link` and give the link that encrypts.

    `prefix` "proxy.tls." is for the leg to an HTTPS proxy. Raises MeasureError with a code of
    `tls_failure`, `link` being the caller's to close, and UsageError for files of the user's
    (before t0 already, when `tls_context.prepare` was called).
    """
    settings = TlsSettings(ca_file, insecure, keylog_file, named=sni != "")
    target = TlsTarget(host=host, sni=sni, alpn=alpn, settings=settings)
    tls = TlsLink(recorder, link, target, stage=stage, prefix=prefix, session=session)
    span_name = SPAN_HANDSHAKE if stage is Stage.TLS else SPAN_PROXY_TLS
    await tls.shake_hands(deadline_ns, span_name=span_name, parent=parent)
    if session is not None:
        tls.observer.resumed(offered=True, accepted=tls.resumed)
    return tls
