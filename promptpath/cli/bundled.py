"""The bundled reference server as a process that lives as long as a trace through it."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from promptpath.errors import InternalError, UsageError
from promptpath.model.redact import printable

_START_S = 60.0
"""On an idle machine it listens within a second, with the real model after three (measured: torch's
import 1 s, the weights 1 to 2 s); a busy one gets time."""
_STOP_S = 3.0


@dataclass(frozen=True, slots=True)
class Bundled:
    """A running server."""

    url: str
    ca_file: str | None
    model: str
    note: str | None
    """Why there is no real model behind it; None when there is, or nobody wanted one."""


@contextlib.contextmanager
def bundled_server(*arguments: str) -> Iterator[Bundled]:
    """Start `python -m reference_server` on a free loopback port, stop it at the end.

    It has a session of its own, so that Ctrl-C reaches only us, and ends when its standard input
    does, so that it never outlives us. `arguments` come after ours. Raises UsageError when it
    says why it cannot start, InternalError when it just does not.
    """
    command = [sys.executable, "-P", "-m", "reference_server", "--host", "127.0.0.1"]
    command += ["--port", "0", "--tls", "self", "--announce", "--stop-with-stdin"]
    command += arguments
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield _announced(process, errors)
        finally:
            _stop(process)


def _announced(process: subprocess.Popen[bytes], errors: IO[bytes]) -> Bundled:
    """Wait for its one line."""
    out = process.stdout
    line = b""
    if out is not None and select.select([out], [], [], _START_S)[0]:
        line = out.readline()
    try:
        said = json.loads(line)
        ca_file = said.get("ca")
        return Bundled(
            url=str(said["url"]),
            ca_file=None if ca_file is None else str(ca_file),
            model=str(said["model"]),
            note=None if said.get("note") is None else str(said["note"]),
        )
    except (ValueError, KeyError, AttributeError) as error:
        errors.seek(0)
        last = errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        said_so = "error: " in last  # its own words, not the last line of a traceback
        raise (UsageError if said_so else InternalError)(
            "the bundled server did not start",
            where=printable(last)[:200] or None,
            hint="see what it says: promptpath serve",
        ) from error


def _stop(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
