"""`ShimPath`: a client's and a server's namespace with the link between them.

with ShimPath(delay_ms=20, loss=0.02) as path:
    with path.server.entered():
        origin = ScriptedOrigin(script, host=path.server.address)
    subprocess.run(path.client.command("curl", f"http://{path.server.address}:{origin.port}/"))
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.netns.link import DEVICE, enter_namespace
from tests.peers.programs import find
from tests.peers.require import require, unavailable

_PREFIX = "pp"
_COUNTER = itertools.count()
_ROOT = Path(__file__).parents[2]
_OWN_NAMESPACE = "/proc/thread-self/ns/net"
_TUN = Path("/dev/net/tun")


def require_netns() -> None:
    """Skip where namespaces cannot be made: not root. As root without /dev/net/tun or iproute2 skip
    too, but fail in CI."""
    import pytest

    if os.getuid() != 0:
        pytest.skip("network namespaces need root")
    require("ip")
    if not _TUN.exists():
        unavailable("no /dev/net/tun", "mkdir -p /dev/net && mknod /dev/net/tun c 10 200")


@dataclass(frozen=True, slots=True)
class Namespace:
    """One end of the path."""

    name: str
    address: str
    """IPv4."""
    address6: str
    """IPv6."""

    def prefix(self) -> tuple[str, ...]:
        """What goes before a command to run it here."""
        return ("ip", "netns", "exec", self.name)

    def command(self, *arguments: str) -> list[str]:
        """The command as it runs in this namespace."""
        return [*self.prefix(), *arguments]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """This thread's sockets made in the block belong to this namespace, for good."""
        outside = os.open(_OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            enter_namespace(f"/run/netns/{self.name}")
            yield
        finally:
            enter_namespace(f"/proc/self/fd/{outside}")
            os.close(outside)


class ShimPath:
    """Delay each way, loss (each way unless `upload_loss` is given), jitter (uniform, order kept)
    and rate. Names hold the process id, so that runs beside each other do not meet."""

    def __init__(
        self,
        delay_ms: float = 0.0,
        loss: float = 0.0,
        *,
        jitter_ms: float = 0.0,
        rate_mbit: float = 0.0,
        upload_loss: float | None = None,
        seed: int = 1,
    ) -> None:
        stem = f"{_PREFIX}{os.getpid()}x{next(_COUNTER)}"
        self.client = Namespace(f"{stem}c", "10.99.0.1", "fd99::1")
        self.server = Namespace(f"{stem}s", "10.99.0.2", "fd99::2")
        self._options = [f"--delay-ms={delay_ms}", f"--loss={loss}", f"--jitter-ms={jitter_ms}"]
        self._options += [f"--rate-mbit={rate_mbit}", f"--seed={seed}"]
        if upload_loss is not None:
            self._options.append(f"--upload-loss={upload_loss}")
        self._link: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        _remove_stale()
        try:
            for end in (self.client, self.server):
                _ip("netns", "add", end.name)
                _ip("-n", end.name, "link", "set", "lo", "up")
            self._link = self._start_link()
            self._address(self.client, self.server)
            self._address(self.server, self.client)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._remove()

    def _start_link(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.netns.link", self.client.name, self.server.name]
        link = subprocess.Popen([*command, *self._options], stdout=subprocess.PIPE, cwd=_ROOT)
        assert link.stdout is not None
        if link.stdout.readline() != b"ready\n":
            link.kill()
            link.wait()
            raise RuntimeError("the link did not start; its message is on stderr")
        return link

    @staticmethod
    def _address(end: Namespace, peer: Namespace) -> None:
        inside = ("-n", end.name)
        _ip(*inside, "address", "add", end.address, "peer", peer.address, "dev", DEVICE)
        # On a point-to-point device nobody else can hold the address: no need to wait for DAD.
        _ip(*inside, "address", "add", f"{end.address6}/64", "dev", DEVICE, "nodad")
        _ip(*inside, "link", "set", DEVICE, "mtu", "1500", "up")

    def _remove(self) -> None:
        if self._link is not None:
            self._link.kill()
            self._link.wait()
            assert self._link.stdout is not None
            self._link.stdout.close()
        for end in (self.client, self.server):
            _delete(end.name)


def _ip(*arguments: str) -> None:
    done = subprocess.run([find("ip") or "ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _delete(name: str) -> None:
    with contextlib.suppress(RuntimeError):
        _ip("netns", "delete", name)


def _remove_stale() -> None:
    """Namespaces of a run that was killed: their names hold the id of a process that is gone."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir("/run/netns"):
            pid, _, rest = name.removeprefix(_PREFIX).partition("x")
            if name.startswith(_PREFIX) and pid.isdigit() and rest and not _alive(int(pid)):
                _delete(name)


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
