"""The key file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from reference_server.gateway.keys import KeyFileError, KeyRing, append_key, make_key, read_keys
from reference_server.gateway.limits import Limits


def test_a_made_key_is_found_again_and_no_other_is(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    alice, line = make_key("alice", Limits(3, None))
    append_key(file, line)
    bob, line = make_key("bob", Limits())
    append_key(file, line)
    ring = KeyRing(read_keys(file))
    found = ring.find(alice)
    assert found is not None and (found.name, found.limits) == ("alice", Limits(3, None))
    assert (other := ring.find(bob)) is not None and other.name == "bob"
    swapped = "-".join([*alice.split("-", 2)[:2], bob.split("-", 2)[2]])
    for wrong in (None, "", "x", alice[:-1], alice + "x", swapped, "pp--", "\ud800-\ud800-x"):
        assert ring.find(wrong) is None


def test_the_file_holds_no_key_and_is_its_owners_only(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key, line = make_key("alice", Limits())
    append_key(file, line)
    assert key.split("-", 2)[2] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


GOOD = {"id": "a", "name": "n", "salt": "s", "sha256": "d"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1 of the key file is not JSON"),
        ("\n[]", "line 2 of the key file is not an object"),
        (json.dumps({**GOOD, "salt": 5}), "'salt' must be a text"),
        (json.dumps({**GOOD, "requests_per_minute": 0}), "'requests_per_minute' must be"),
        (json.dumps({**GOOD, "tokens_per_minute": True}), "'tokens_per_minute' must be"),
        (json.dumps(GOOD) + "\n" + json.dumps(GOOD), "an id twice"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    with pytest.raises(KeyFileError, match=says):
        read_keys(file)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(KeyFileError, match="UTF-8"):
        read_keys(file)
