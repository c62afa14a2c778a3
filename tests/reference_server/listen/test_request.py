"""The ASGI scope."""

from __future__ import annotations

import pytest

from reference_server.listen.request import Endpoints, address, build_scope

ENDS = Endpoints(("192.0.2.1", 5), ("192.0.2.2", 6), "https")


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/a%20b?x=1&y=%20", "/a b", b"x=1&y=%20"),
        (b"http://example.test:8/a?b", "/a", b"b"),
        (b"https://example.test", "/", b""),
        (b"*", "*", b""),
        (b"/%ff", "/\ufffd", b""),
        (b"//double?", "//double", b""),
    ],
)
def test_path_and_query_are_told_apart(target: bytes, path: str, query: bytes) -> None:
    scope = build_scope("1.1", b"GET", target, [], ENDS, 7)
    assert (scope["path"], scope["query_string"]) == (path, query)
    assert scope["extensions"]["promptpath.listener"] == {"received_ns": 7}


def test_addresses_of_both_families_and_of_none() -> None:
    assert address(("::1", 80, 0, 0)) == ("::1", 80)
    assert address(("127.0.0.1", 80)) == ("127.0.0.1", 80)
    assert address("") is None
