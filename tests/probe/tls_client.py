"""The client's side of the TLS tests: dials a loopback port for real and shakes hands."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.rows import Json, Mark
from promptpath.model.units import NS_PER_S
from promptpath.probe.clock import RunClock
from promptpath.probe.dial import dial
from promptpath.probe.link import Chunk, Closed, Link
from promptpath.probe.recorder import Recorder
from promptpath.probe.tls import TlsLink, handshake

T = TypeVar("T")
LIMIT_NS = 10 * NS_PER_S
"""How long a peer on loopback may take on a busy machine."""


@dataclass
class Client:
    """One run's recorder with what the tests ask of it."""

    recorder: Recorder = field(default_factory=lambda: Recorder(RunClock.start()))

    def deadline(self, after_ns: int = LIMIT_NS) -> int:
        return self.recorder.clock.deadline(after_ns)

    async def dial(self, port: int) -> Link:
        return await dial(self.recorder, [("127.0.0.1", port)], deadline_ns=self.deadline())

    async def shake(
        self,
        link: Link,
        *,
        host: str = "localhost",
        sni: str | None = None,
        alpn: tuple[str, ...] = ("http/1.1",),
        ca: Path | None = None,
        insecure: bool = False,
        keylog: Path | None = None,
        session: ssl.SSLSession | None = None,
        limit_ns: int = LIMIT_NS,
        **more: Any,
    ) -> TlsLink:
        """Shake hands; on failure the link below is closed, as its owner does."""
        try:
            return await handshake(
                self.recorder,
                link,
                host=host,
                sni=sni,
                alpn=alpn,
                ca_file=None if ca is None else str(ca),
                insecure=insecure,
                keylog_file=None if keylog is None else str(keylog),
                session=session,
                deadline_ns=self.deadline(limit_ns),
                **more,
            )
        except BaseException:
            link.abort()
            raise

    async def connect(self, port: int, **options: Any) -> TlsLink:
        return await self.shake(await self.dial(port), **options)

    async def read_all(self, link: Link) -> tuple[bytes, Closed]:
        """Everything until the peer ends, and how it ends."""
        data = b""
        while True:
            for item in await link.receive(self.deadline()):
                if isinstance(item, Closed):
                    return data, item
                assert isinstance(item, Chunk)
                data += item.data

    def fact(self, key: str) -> Json:
        """The one fact of that key."""
        (value,) = self.facts(key)
        return value

    def facts(self, key: str) -> list[Json]:
        return [fact.value for fact in self.recorder.log.facts if fact.key == key]

    def marks(self, name: str = "message", stage: Stage = Stage.TLS) -> list[Mark]:
        log = self.recorder.log
        return [mark for mark in log.marks if mark.name == name and mark.stage is stage]

    def messages(self, stage: Stage = Stage.TLS) -> list[tuple[str, str]]:
        """(direction, message) of every handshake message, in order."""
        return [(m.detail["direction"], m.detail["message"]) for m in self.marks(stage=stage)]


def run(scenario: Callable[[Client], Awaitable[T]]) -> tuple[T, Client]:
    """Run a scenario in a fresh loop; what it gives, and its client."""
    client = Client()

    async def bounded() -> T:
        async with asyncio.timeout(60):
            return await scenario(client)

    return asyncio.run(bounded()), client


def failing(port: int, **options: Any) -> tuple[MeasureError, Client]:
    """A handshake that must fail: its error, and the client."""

    async def scenario(client: Client) -> MeasureError:
        try:
            link = await client.connect(port, **options)
        except MeasureError as error:
            return error
        link.abort()
        raise AssertionError("the handshake went well")

    return run(scenario)
