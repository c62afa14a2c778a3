"""Runs of the program without its start: a process that has everything imported forks one for each.

A start costs 0.3 s of CPU, and this folder makes hundreds. Each run is a process of its own, with
its own arguments, environment, standard streams, signals, memory and exit code, from entry() on;
the real start is what tests/cli, test_outputs.py, terminal.py and signals.py go through.

python -m tests.bad_input.fork_server FD     serves on the socket FD until it closes
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from typing import IO, NoReturn, Protocol


class Running(Protocol):
    """What a test may do to a run: as subprocess.Popen has it."""

    def poll(self) -> int | None: ...

    def send_signal(self, sig: int, /) -> None: ...


class Forked:
    """One run."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self._status = status
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        if self._code is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self._code

    def send_signal(self, sig: int, /) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def wait(self) -> int:
        """Its exit code, negative for a signal, as soon as it has ended."""
        if self._code is None:
            self._code = int(self._status.recv(64))
        return self._code


class ForkServer:
    """The server's client; one run at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.bad_input.fork_server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        streams: tuple[IO[bytes], IO[bytes], IO[bytes]],
    ) -> Forked:
        """Start `promptpath ARGUMENTS` with these standard streams."""
        with tempfile.TemporaryFile("w+") as request:
            json.dump({"arguments": arguments, "environment": dict(environment)}, request)
            request.flush()
            numbers = [stream.fileno() for stream in streams]
            socket.send_fds(self._socket, [b"run"], [*numbers, request.fileno()])
            return Forked(int(self._socket.recv(64)), self._socket)

    def close(self) -> None:
        """End the server."""
        self._socket.close()
        self._process.wait(10)


def serve(sock: socket.socket) -> None:
    """Fork, tell the process id, wait, tell the exit code; until the socket closes."""
    load_program()
    while True:
        message, fds, _, _ = socket.recv_fds(sock, 16, 4)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            sock.close()
            become(fds)
        for fd in fds:
            os.close(fd)
        sock.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        sock.send(str(os.waitstatus_to_exitcode(status)).encode())


def load_program() -> None:
    """Import all of it, and what it loads on demand."""
    import promptpath
    from promptpath.dialect.tokens.vocabulary import o200k_base

    for module in pkgutil.walk_packages(promptpath.__path__, "promptpath."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    o200k_base()
    gc.freeze()


def become(fds: Sequence[int]) -> NoReturn:
    """Be the run: take the streams and the environment, and go in where a fresh process would."""
    with open(fds[3]) as file:
        file.seek(0)
        request = json.load(file)
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin, sys.stdout = open(0), open(1, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
    sys.argv = ["promptpath", *request["arguments"]]
    code: object = 1
    try:
        from promptpath.cli.main import entry

        entry()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
