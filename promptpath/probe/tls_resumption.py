"""Whether a second connection can take the session of the first: off the critical path."""

from __future__ import annotations

from dataclasses import dataclass

from promptpath.model.enums import Stage
from promptpath.model.names import SPAN_REUSE
from promptpath.model.units import Ns
from promptpath.probe.link import Link
from promptpath.probe.recorder import Recorder
from promptpath.probe.tls import TlsLink


@dataclass(frozen=True, slots=True)
class Resumption:
    """What came of it."""

    offered: bool
    """The first connection had a session to offer."""
    accepted: bool
    """The server took it."""
    handshake_ns: Ns | None
    """How long the second handshake took; None when there was nothing to offer."""


async def resume_check(
    recorder: Recorder,
    link: Link | None,
    first: TlsLink,
    *,
    deadline_ns: Ns,
    parent: int | None = None,
) -> Resumption:
    """Shake hands over `link`, freshly dialled to the same address, offering the session of
    `first`; close it again. Records `tls.resumed`, the messages and the span "resumption", no other
    fact.

    Where `first.session` is None nothing can be offered: that is recorded, and `link` may be None.
    Raises MeasureError when the handshake fails; `link` is then the caller's to close.
    """
    session = first.session
    if session is None or link is None:
        first.observer.resumed(offered=False, accepted=False)
        return Resumption(offered=False, accepted=False, handshake_ns=None)
    second = TlsLink(
        recorder, link, first.target, stage=Stage.TLS, prefix="tls.", session=session, quiet=True
    )
    start_ns = recorder.now_ns()
    await second.shake_hands(deadline_ns, span_name=SPAN_REUSE, parent=parent)
    handshake_ns = recorder.now_ns() - start_ns
    second.observer.resumed(offered=True, accepted=second.resumed)
    accepted = second.resumed
    await second.close()
    return Resumption(offered=True, accepted=accepted, handshake_ns=handshake_ns)
