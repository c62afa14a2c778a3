"""Conversations in an SQLite file: they survive a restart.

SQLite blocks, so it lives in a thread of its own; the event loop only waits for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from reference_server.sessions.store import MOST_MESSAGES, StoreUnavailable
from reference_server.text.prompt import Message

T = TypeVar("T")

_LOCK_S = 1.0
"""How long to wait for another process that writes to the file. A choice."""
_PAGE_BYTES = 4096
_SCHEMA = """
CREATE TABLE IF NOT EXISTS message (
    conversation TEXT NOT NULL,
    number INTEGER NOT NULL,
    role TEXT NOT NULL,
    parts TEXT NOT NULL,
    PRIMARY KEY (conversation, number)
) WITHOUT ROWID
"""


class SqliteStore:
    """A `ConversationStore`. The file is made at first use, for its owner only."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        """The file grows to `most_bytes` at most; then nothing more can be saved."""
        self._path = path
        self._most_pages = max(1, most_bytes // _PAGE_BYTES)
        self._thread: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None

    async def load(self, key: str) -> list[Message]:
        """The messages in order. Raises StoreUnavailable."""
        return await self._do(lambda connection: _load(connection, key))

    async def append(self, key: str, messages: Sequence[Message]) -> None:
        """Add all of them or none. Raises StoreUnavailable."""
        await self._do(lambda connection: _append(connection, key, messages))

    async def close(self) -> None:
        """Close the file."""
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._drop)
            self._thread.shutdown()

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            try:
                return work(self._open())
            except (sqlite3.Error, OSError, ValueError) as error:
                # The next call opens it anew: the file may have been repaired or replaced.
                self._drop()
                raise StoreUnavailable(_reason(error)) from error

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="conversations")
        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            connection = sqlite3.connect(self._path, timeout=_LOCK_S, isolation_level=None)
            self._connection = connection
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA max_page_count = {self._most_pages}")
            connection.execute(_SCHEMA)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()


def _load(connection: sqlite3.Connection, key: str) -> list[Message]:
    query = "SELECT role, parts FROM message WHERE conversation = ? ORDER BY number"
    with closing(connection.execute(query, (key,))) as rows:
        return [Message(str(role), tuple(json.loads(parts))) for role, parts in rows]


def _append(connection: sqlite3.Connection, key: str, messages: Sequence[Message]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        query = "SELECT coalesce(max(number), 0) FROM message WHERE conversation = ?"
        (last,) = connection.execute(query, (key,)).fetchone()
        rows = [
            (key, last + number, message.role, json.dumps(message.parts))
            for number, message in enumerate(messages, 1)
        ]
        connection.executemany("INSERT INTO message VALUES (?, ?, ?, ?)", rows)
        oldest = last + len(rows) - MOST_MESSAGES
        delete = "DELETE FROM message WHERE conversation = ? AND number <= ?"
        connection.execute(delete, (key, oldest))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _reason(error: Exception) -> str:
    """SQLite's own name of the error, for a person."""
    name = getattr(error, "sqlite_errorname", None)
    return str(name or getattr(error, "strerror", None) or type(error).__name__)
