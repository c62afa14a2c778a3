"""`python -m promptpath.cli.live`: draws the rows on its standard input until they end.

A process of its own: drawing in the measuring one cost 5 to 54 ms of p99 error (ARCHITECTURE.md,
measuring rule 8). It ignores Ctrl-C: the measuring process ends it by closing the pipe.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from promptpath.cli.live_model import LiveHop, LiveRun
from promptpath.export.figures import share
from promptpath.export.terminal.style import STAGE_STYLES, UNICODE
from promptpath.export.terminal.waterfall import columns, place
from promptpath.model.enums import Stage
from promptpath.model.units import NS_PER_S, Ns, format_duration, to_ms

FRAME_S = 0.125
"""Eight frames a second: smooth to the eye, and under 1 % of a core (measured: 0.8 ms a frame)."""
_READ_BYTES = 1 << 20
_TITLES = {
    Stage.DNS: "name resolution",
    Stage.PROXY: "proxy",
    Stage.TCP: "TCP connect",
    Stage.TLS: "TLS handshake",
    Stage.REQUEST: "request upload",
    Stage.WAIT: "wait for the first token",
    Stage.GENERATION: "generation",
    Stage.FINISH: "finish",
}

_QUIET = {
    "alive": "nothing comes, and the peer answers TCP keepalives: somebody behind it is at work",
    "unanswered": "nothing comes, and TCP keepalives get no answer: the path may be dead",
}

_QUIET_HTTP = {
    "answered": "its HTTP/2 answered a PING too",
    "unanswered": "its HTTP/2 answers no PING: only TCP is known to live there",
}


class View:
    """The run in progress and the time it has come to."""

    def __init__(self) -> None:
        self.run = LiveRun()
        self._offset_ns: Ns | None = None

    def take(self, line: bytes) -> None:
        """One line of the feed; a broken one is passed over."""
        with contextlib.suppress(msgspec.DecodeError, ValueError, TypeError, IndexError):
            row = msgspec.json.decode(line)
            if row[0] == "run":
                self.run, self._offset_ns = LiveRun(index=row[1], kind=row[2]), None
                return
            self.run.apply(row)
            # Rows arrive late, never early: the smallest difference is the truest.
            offset_ns = time.monotonic_ns() - self.run.latest_ns
            if self._offset_ns is None or offset_ns < self._offset_ns:
                self._offset_ns = offset_ns

    def now_ns(self) -> Ns:
        """Run time, as near as can be told from here."""
        if self._offset_ns is None:
            return 0
        if self.run.over:
            return max((hop.end_ns or 0 for hop in self.run.hops), default=0)
        return max(time.monotonic_ns() - self._offset_ns, self.run.latest_ns)

    def draw(self, width: int) -> Group:
        """The waterfall so far."""
        run, now_ns = self.run, self.now_ns()
        lines = [Text(f"run {run.index + 1} ({run.kind})  {format_duration(now_ns)}", style="bold")]
        for hop in run.hops:
            if hop.stage is Stage.GENERATION and run.first_token_ns is not None:
                lines.append(_first_token_line(run.first_token_ns, width))
            lines.append(_hop_line(hop, now_ns, width))
        if run.events:
            lines.append(_stream_line(run, now_ns))
        if run.quiet_peer in _QUIET:
            lines.append(Text(_QUIET[run.quiet_peer], style="yellow"))
        if run.quiet_http in _QUIET_HTTP:
            lines.append(Text(_QUIET_HTTP[run.quiet_http], style="yellow"))
        for line in lines:
            line.no_wrap = True
        return Group(*lines)


def _hop_line(hop: LiveHop, now_ns: Ns, width: int) -> Text:
    end_ns = now_ns if hop.end_ns is None else hop.end_ns
    length_ns = max(end_ns - hop.start_ns, 0)
    mark = " …" if hop.end_ns is None else ""
    part = share(to_ms(length_ns), to_ms(now_ns))
    text = columns(f"{_TITLES[hop.stage]}{mark}", format_duration(length_ns), "", part)
    first, cells = place(
        to_ms(hop.start_ns), to_ms(length_ns), to_ms(now_ns), width - len(text) - 1
    )
    style = STAGE_STYLES.get(hop.stage, "")
    return Text(text + " " * first).append(UNICODE.bar * cells, style=style)


def _first_token_line(at_ns: Ns, width: int) -> Text:
    label = f"{UNICODE.rule * 3} first token at {format_duration(at_ns)} "
    return Text(label + UNICODE.rule * max(width - len(label) - 1, 0), style="bold")


def _stream_line(run: LiveRun, now_ns: Ns) -> Text:
    words = [f"{run.events} events"]
    if run.tokens:
        words.append(f"{run.tokens} tokens")
    if run.first_token_ns is not None and run.last_content_ns is not None:
        span_ns = run.last_content_ns - run.first_token_ns
        if span_ns > 0:
            words.append(f"{(run.events - 1) * NS_PER_S / span_ns:.0f} events/s")
        quiet_ns = now_ns - run.last_content_ns
        if quiet_ns > NS_PER_S:
            words.append(f"quiet for {format_duration(quiet_ns)}")
    return Text(", ".join(words), style="dim")


def main() -> int:
    """Draw until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(5)  # a frame may wait, a packet may not
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    view, rest, open_input = View(), b"", True
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while open_input:
            until = time.monotonic() + FRAME_S
            while open_input and (left := until - time.monotonic()) > 0:
                if select.select([0], [], [], left)[0]:
                    data = os.read(0, _READ_BYTES)
                    open_input = bool(data)
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        view.take(line)
            live.update(view.draw(console.width), refresh=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
