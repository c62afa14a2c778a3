"""The conversation store from its settings."""

from __future__ import annotations

import os
from pathlib import Path

from reference_server.sessions.shared import RedisStore
from reference_server.sessions.sqlite import SqliteStore
from reference_server.sessions.store import ConversationStore
from reference_server.settings import SessionSettings


def build_store(settings: SessionSettings, redis: str | None) -> ConversationStore | None:
    """None when conversations are switched off. Raises RedisDown on a bad URL."""
    if settings.sessions == "off":
        return None
    if settings.sessions is None and redis is not None:
        return RedisStore(redis)
    path = default_path() if settings.sessions is None else Path(settings.sessions)
    return SqliteStore(path, settings.sessions_max_mb * 1024 * 1024)


def default_path() -> Path:
    """In the user's state folder (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "promptpath" / "conversations.sqlite"
