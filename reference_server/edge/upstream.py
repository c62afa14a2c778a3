"""HTTP/1.1 connections to the backends, kept open and used again."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

import h11

from reference_server.edge.balance import Backend

_CONNECT_S = 2.0
"""A backend on the same machine or network that takes longer is taken for dead. A choice."""
_IDLE_S = 30.0
"""Unused connections older than this are closed: well below the 75 s after which the reference
server (and nginx) closes them, so that no request meets a connection that is being closed."""
_READ_BYTES = 65_536
_KEPT = 64
"""Most unused connections kept to one backend. A choice."""

Received = h11.Response | h11.Data | h11.EndOfMessage | h11.InformationalResponse


class UpstreamBroken(Exception):
    """The backend closed the connection or sent what is not HTTP."""


class UpstreamConnection:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self.unused_since_s = 0.0

    @property
    def open(self) -> bool:
        """Whether the backend has not closed it, as far as can be seen."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    async def send(self, event: h11.Request | h11.Data | h11.EndOfMessage) -> None:
        """Write a part of the request. Raises UpstreamBroken."""
        try:
            data = self._http.send(event)
            if data:
                self._writer.write(data)
                await self._writer.drain()
        except (OSError, h11.LocalProtocolError) as error:
            raise UpstreamBroken(type(error).__name__) from error

    async def receive(self) -> Received:
        """The next part of the response, as soon as it is there. Raises UpstreamBroken."""
        try:
            while True:
                event = self._http.next_event()
                if event is not h11.NEED_DATA:
                    break
                self._http.receive_data(await self._reader.read(_READ_BYTES))
        except (OSError, h11.RemoteProtocolError) as error:
            raise UpstreamBroken(type(error).__name__) from error
        if isinstance(event, Received):
            return event
        raise UpstreamBroken("closed")

    def reset(self) -> bool:
        """Ready for another request; False when it cannot be used again."""
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if done and self.open:
            self._http.start_next_cycle()
            return True
        return False

    def close(self) -> None:
        """Close at once."""
        self._writer.close()


class Pool:
    """Connections to one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._unused: deque[UpstreamConnection] = deque()
        self.opened = 0
        """Connections made since the start."""

    async def take(self) -> UpstreamConnection:
        """An open connection, the latest used first. Raises OSError."""
        now_s = asyncio.get_running_loop().time()
        while self._unused:
            connection = self._unused.pop()
            if connection.open and now_s - connection.unused_since_s < _IDLE_S:
                return connection
            connection.close()
        return await self.fresh()

    async def fresh(self) -> UpstreamConnection:
        """A new connection. Raises OSError."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                ends = await asyncio.open_connection(self._backend.host, self._backend.port)
        except TimeoutError:
            raise ConnectionError("the backend does not accept") from None
        self.opened += 1
        return UpstreamConnection(*ends)

    def give_back(self, connection: UpstreamConnection) -> None:
        """The response was read to its end."""
        if len(self._unused) < _KEPT and connection.reset():
            connection.unused_since_s = asyncio.get_running_loop().time()
            self._unused.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close the unused ones."""
        while self._unused:
            with suppress(OSError):
                self._unused.pop().close()
