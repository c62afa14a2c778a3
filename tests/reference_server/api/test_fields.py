"""Reading hostile JSON."""

from __future__ import annotations

from typing import Any

import pytest

from reference_server.api import fields
from reference_server.api.errors import ApiError


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"1", b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": "\xff"}', b"\x00"]
    + [b"[" * 200_000, b'{"a":' * 200_000, b"\xef\xbb\xbf{}"],
)
def test_what_is_not_a_json_object_is_a_400(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        fields.parse_object(body)
    assert (caught.value.status, caught.value.code) == (400, "invalid_json")


@pytest.mark.parametrize("value", [None, 1, "", [], {}, True])
def test_a_string_must_be_one_and_not_empty(value: object) -> None:
    with pytest.raises(ApiError, match="'model' must be a string"):
        fields.string({"model": value}, "model")


@pytest.mark.parametrize("value", [0, -1, 1.5, "1", True, []])
def test_a_count_must_be_a_positive_integer(value: object) -> None:
    with pytest.raises(ApiError, match="'n' must be an integer"):
        fields.positive({"n": value}, "n")


@pytest.mark.parametrize("value", [-0.1, 2.1, "1", True, float("nan"), 10**400])
def test_a_number_outside_its_range_is_refused(value: object) -> None:
    with pytest.raises(ApiError, match="'t' must be a number from 0 to 2"):
        fields.number({"t": value}, "t", 0, 2)


@pytest.mark.parametrize(
    "messages",
    [
        None,
        [],
        "hi",
        [1],
        [{"role": "robot", "content": "x"}],
        [{"role": "user", "content": 1}],
        [{"role": "user", "content": [{"type": "image_url"}]}],
        [{"role": "user", "content": [{"type": "text", "text": 5}]}],
        [{"role": ["user"], "content": "x"}],
    ],
)
def test_messages_of_a_wrong_shape_are_a_400_that_names_the_place(messages: Any) -> None:
    with pytest.raises(ApiError) as caught:
        fields.messages({"messages": messages}, ("user",))
    assert caught.value.status == 400
    assert str(caught.value.param).startswith("messages")


def test_texts_come_in_order_from_strings_parts_and_nulls() -> None:
    messages = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": None},
        {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
    ]
    read = fields.messages({"messages": messages}, ("user",))
    assert [message.parts for message in read] == [("a",), (), ("b", "c")]
