"""Conversations in a file and in Redis, and what goes wrong there."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from pathlib import Path

import pytest

from reference_server.sessions.shared import RedisStore
from reference_server.sessions.sqlite import SqliteStore
from reference_server.sessions.store import MOST_MESSAGES, ConversationStore, StoreUnavailable
from reference_server.text.prompt import Message
from tests.peers.process import free_port
from tests.peers.redis import redis_server
from tests.reference_server.harness import in_loop

TURN = [Message("user", ("hé", "two")), Message("assistant", ("yes\x00",))]
MB = 1024 * 1024


async def keeps_what_it_is_given(store: ConversationStore) -> None:
    assert await store.load("a/1") == []
    await store.append("a/1", TURN)
    await store.append("b/1", TURN[:1])
    await store.append("a/1", TURN)
    assert await store.load("a/1") == [*TURN, *TURN]
    assert await store.load("b/1") == TURN[:1]
    many = [Message("user", (str(number),)) for number in range(MOST_MESSAGES)]
    await store.append("a/1", many)
    assert await store.load("a/1") == many


@in_loop
async def test_the_file_survives_a_restart_and_is_its_owners_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    store = SqliteStore(path, 8 * MB)
    await keeps_what_it_is_given(store)
    await store.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = SqliteStore(path, 8 * MB)
    assert await again.load("b/1") == TURN[:1]
    await again.close()


@pytest.mark.peer
def test_redis_keeps_the_same(tmp_path: Path) -> None:
    async def scenario(port: int) -> None:
        store = RedisStore(f"redis://127.0.0.1:{port}/0")
        await keeps_what_it_is_given(store)
        await store.close()

    with redis_server(tmp_path) as port:
        asyncio.run(scenario(port))


@in_loop
async def test_without_redis_it_says_so() -> None:
    store = RedisStore(f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(StoreUnavailable):
        await store.load("a")
    with pytest.raises(StoreUnavailable):
        await store.append("a", TURN)
    await store.close()


@in_loop
async def test_a_locked_file_is_waited_for_and_then_said(tmp_path: Path) -> None:
    path = tmp_path / "file"
    store = SqliteStore(path, 8 * MB)
    await store.append("a", TURN)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await store.load("a") == TURN
        with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
            await store.append("a", TURN)
        other.execute("ROLLBACK")
    other.close()
    await store.append("a", TURN)
    assert len(await store.load("a")) == 4
    await store.close()


@in_loop
async def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "file", 64 * 1024)
    await store.append("a", TURN)
    with pytest.raises(StoreUnavailable, match="SQLITE_FULL"):
        await store.append("a", [Message("user", ("x" * 100_000,))])
    assert await store.load("a") == TURN
    await store.close()


@in_loop
async def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"not a database, " * 1000)
    store = SqliteStore(path, MB)
    with pytest.raises(StoreUnavailable, match="SQLITE_NOTADB"):
        await store.load("a")
    await store.close()


@in_loop
async def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SqliteStore(tmp_path / "file" / "below", MB)
    with pytest.raises(StoreUnavailable):
        await store.load("a")
    await store.close()
