"""Whatever JSON a client sends to whichever surface: an answer, or a refusal that names a field."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference_server.harness import MODEL, ask

_WORDS = st.sampled_from(["role", "content", "type", "text", "include_usage", "format", "user"])
_ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_WORDS | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
_FIELDS = (
    *("model", "messages", "prompt", "input", "instructions", "system"),
    *("max_tokens", "max_completion_tokens", "max_output_tokens", "stop", "stop_sequences"),
    *("temperature", "top_p", "top_k", "seed", "logprobs", "top_logprobs", "n", "best_of"),
    *("stream", "stream_options", "tools", "thinking", "text", "response_format"),
    *("cache_salt", "priority"),
)
_MESSAGES = [{"role": "user", "content": "x"}]
_GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": _MESSAGES, "max_tokens": 2},
    "/v1/completions": {"prompt": "x", "max_tokens": 2},
    "/v1/messages": {"messages": _MESSAGES, "max_tokens": 2},
    "/v1/responses": {"input": "x", "max_output_tokens": 2},
}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(_GOOD)),
    st.dictionaries(st.sampled_from(_FIELDS), _ANYTHING, max_size=3),
)
def test_any_fields_are_answered_or_refused(path: str, changes: dict[str, Any]) -> None:
    body = {"model": MODEL, **_GOOD[path], **changes}
    answer = ask("POST", path, json.dumps(body).encode())
    assert answer.status in (200, 400, 404), answer.body
    if answer.status != 200:
        assert answer.json()["error"]["message"]
