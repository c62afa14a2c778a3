"""The dialects there are. To add one: write its file, name it here (docs/dialects.md)."""

from __future__ import annotations

from typing import Final

from promptpath.dialect.anthropic import ANTHROPIC
from promptpath.dialect.base import Dialect
from promptpath.dialect.calibration import CALIBRATION
from promptpath.dialect.generic_ndjson import GENERIC_NDJSON
from promptpath.dialect.generic_sse import GENERIC_SSE
from promptpath.dialect.openai_chat import AZURE_OPENAI, OPENAI_CHAT
from promptpath.dialect.providers import provider_of
from promptpath.errors import UsageError

DIALECTS: Final[tuple[Dialect, ...]] = (
    OPENAI_CHAT,
    AZURE_OPENAI,
    ANTHROPIC,
    CALIBRATION,
    GENERIC_SSE,
    GENERIC_NDJSON,
)
_BY_NAME: Final = {dialect.name: dialect for dialect in DIALECTS}


def by_name(name: str) -> Dialect:
    """The dialect called `name`. Raises UsageError with the names there are."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise UsageError(
            f"no dialect is called {name!r}",
            expected=" | ".join(_BY_NAME),
            where="--dialect",
        ) from None


def by_url(host: str, path: str) -> Dialect | None:
    """The dialect that a URL's path (query allowed) suggests, the host deciding between relatives;
    None for a path nobody claims. Only a prior: the first payload overrules it."""
    path = path.partition("?")[0].rstrip("/")
    matches = [
        (len(suffix), dialect)
        for dialect in DIALECTS
        for suffix in dialect.path_suffixes
        if path.endswith(suffix)
    ]
    if not matches:
        return None
    found = max(matches, key=lambda match: match[0])[1]
    provider = provider_of(host)
    if provider is not None and provider.dialect is not None:
        special = _BY_NAME[provider.dialect]
        if isinstance(special, type(found)):
            return special
    return found
