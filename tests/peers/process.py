"""Start a real program, wait until it accepts, stop it by its process id."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

START_S = 15.0
"""How long a program may take until it accepts; squid needs about one second on an idle core."""
STOP_S = 5.0
"""How long it may take to end after SIGTERM before SIGKILL."""
_POLL_S = 0.01
_TAIL_BYTES = 4000


class PeerFailedError(RuntimeError):
    """The program did not start; the end of its output is in the message."""


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM, host: str = "127.0.0.1") -> int:
    """A loopback port that was free a moment ago."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, kind) as sock:
        sock.bind((host, 0))
        port: int = sock.getsockname()[1]
        return port


def free_port_both() -> int:
    """A loopback port that was free for TCP and UDP (a name server wants both)."""
    while True:
        port = free_port(socket.SOCK_DGRAM)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something accepts there now."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the process group it leads, then SIGKILL if it stays."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def tail(log: Path) -> str:
    """The end of a log, for an error message."""
    return log.read_bytes()[-_TAIL_BYTES:].decode(errors="backslashreplace")


@contextlib.contextmanager
def running(
    command: Sequence[str],
    *,
    log: Path,
    port: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `command` in the foreground in a process group of its own, its output in `log`; with
    `port`, go on when that accepts. It is stopped when the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # held open: s_server ends at the end of its input
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    try:
        if port is not None:
            _wait_until_accepting(process, port, log)
        yield process
    finally:
        stop(process)


def _wait_until_accepting(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not accepts(port):
        if process.poll() is not None or time.monotonic() > deadline:
            state = "still not accepting" if process.returncode is None else "ended"
            raise PeerFailedError(f"{process.args!r} {state}:\n{tail(log)}")
        time.sleep(_POLL_S)
