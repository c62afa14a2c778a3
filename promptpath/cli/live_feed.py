"""The measuring process's end of the live view: rows go down a pipe to a child that draws them.

The view may be slow, stopped or dead; the measurement must not notice. So writes never block: what
the pipe does not take is dropped and counted, and the child is told how far it fell behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from promptpath.cli.options import TraceOptions
from promptpath.cli.tap import import_codec
from promptpath.model.log import Row

if TYPE_CHECKING:
    import subprocess

PIPE_BYTES = 1 << 20
"""The most an unprivileged process may ask for (/proc/sys/fs/pipe-max-size, by default)."""
_END_S = 1.0
"""The child clears its drawing and ends within a frame; one that hangs is killed."""
_SHOW_CURSOR = "\x1b[?25h"


class LiveFeed:
    """Rows for the child (a `tap.Sink`)."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._rest = b""
        self._stamps = 0
        self._behind = False
        self._unsaid_run = b""
        self.dropped = 0
        """Rows the view never saw."""
        self._encode = import_codec().encode_row
        os.set_blocking(fd, False)
        with contextlib.suppress(OSError, AttributeError):  # Linux only
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def begin(self, index: int, kind: str, head: bytes) -> None:
        """A run begins."""
        self._stamps = 0
        self._unsaid_run = self._encode(["run", index, kind])

    def write(self, batch: Iterable[tuple[Row, bytes]]) -> None:
        """Hand on what a view can draw: arrivals are left out."""
        before = self._stamps
        lines = [self._unsaid_run] if self._unsaid_run else []
        for row, line in batch:
            self._stamps += row[0] == "stamp"
            if row[0] != "arrival":
                lines.append(line)
        if self._behind:
            # Rows name stamps by their number: tell from which one on it can count again.
            lines.insert(bool(self._unsaid_run), self._encode(["resync", before]))
        if not lines:
            return
        self._behind = not self._send(b"".join(lines))
        if self._behind:
            self.dropped += len(lines)
        else:
            self._unsaid_run = b""

    def close(self) -> None:
        """End of the rows."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _send(self, data: bytes) -> bool:
        """Whether the pipe takes it (whole, or its beginning: the rest goes first next time)."""
        if self._fd is None or not self._push_rest():
            return False
        self._rest = data
        self._push_rest()
        return True

    def _push_rest(self) -> bool:
        """Whether nothing is left of what was begun before."""
        try:
            while self._rest and self._fd is not None:
                self._rest = self._rest[os.write(self._fd, self._rest) :]
        except BlockingIOError:
            return False
        except OSError:  # the view has gone: EPIPE
            self.close()
        return not self._rest


def wants_live(options: TraceOptions) -> bool:
    """Whether somebody watches: both streams are terminals, and nobody asked for plain text."""
    if options.no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stderr.isatty() and (sys.stdout.isatty() or options.json)


@contextlib.contextmanager
def live_feed(options: TraceOptions) -> Iterator[LiveFeed | None]:
    """The feed of a running view, or None where there is none; the drawing is gone at the end."""
    if not wants_live(options):
        yield None
        return
    import subprocess  # only here: most runs have no view, and none should wait for it

    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "promptpath.cli.live"], stdin=subprocess.PIPE
        )
    except OSError:
        yield None
        return
    assert child.stdin is not None
    feed = LiveFeed(os.dup(child.stdin.fileno()))
    child.stdin.close()
    try:
        yield feed
    finally:
        feed.close()
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    import subprocess

    try:
        code = child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        code = child.wait()
    if code != 0:
        sys.stderr.write(_SHOW_CURSOR)
        sys.stderr.flush()
