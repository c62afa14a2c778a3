"""The page about `promptpath serve` names what the server has."""

from __future__ import annotations

import re
from pathlib import Path

from reference_server import app
from reference_server.options import _parser

PAGE = (Path(__file__).parents[2] / "docs/commands/serve.md").read_text()


def test_every_option_is_in_the_page_and_every_option_in_its_tables_exists() -> None:
    actions = _parser()._actions
    switches = {each for action in actions for each in action.option_strings if each != "-h"}
    words = set(re.findall(r"(?<![\w-])--[\w-]+", PAGE))
    assert switches - words <= {"--help"}
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `-")]
    named = {word for row in rows for word in re.findall(r"`(--[\w-]+)", row)}
    assert named <= switches


def test_every_path_is_in_the_page() -> None:
    for path in app._ROUTES:
        assert re.search(rf"[ `]{re.escape(path)}[`/ ]", PAGE), path
