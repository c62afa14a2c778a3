from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from promptpath.cli import options as o
from promptpath.cli.check_options import CheckOptions
from promptpath.cli.check_targets import targets_of
from promptpath.cli.matrix_options import MatrixOptions

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS: dict[str, type[Any]] = {
    "trace": o.TraceOptions,
    "check": CheckOptions,
    "explain": o.ExplainOptions,
    "rule": o.RuleOptions,
    "tokens": o.TokensOptions,
    "doctor": o.DoctorOptions,
    "idle": o.IdleOptions,
    "calibrate": o.CalibrateOptions,
    "quic": o.QuicOptions,
    "matrix": MatrixOptions,
}


def switches(options: type[Any]) -> set[str]:
    """Every spelling of every option of a command."""
    hints = get_type_hints(options, include_extras=True)
    found: set[str] = set()
    for item in fields(options):
        info = hints[item.name].__metadata__[0]
        found.update(getattr(info, "param_decls", None) or ())
        if isinstance(info.default, str):
            found.add(info.default)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_commands_page(command: str) -> None:
    page = (DOCS / "commands" / f"{command}.md").read_text()
    words = set(re.findall(r"(?<![\w-])--?[\w-]+", page))
    assert switches(COMMANDS[command]) - words <= {"--debug"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_in_the_page_exists(command: str) -> None:
    page = (DOCS / "commands" / f"{command}.md").read_text()
    rows = [line for line in page.splitlines() if re.match(r"\| `-", line)]
    named = {word for row in rows for word in re.findall(r"`(--?[\w-]+)", row.split(" | ")[0])}
    assert named <= switches(COMMANDS[command])


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    for page in (DOCS / "commands").glob("*.md"):
        assert f"(commands/{page.name})" in index


def test_the_switches_are_found_at_all() -> None:
    assert {"--http", "-4", "-H", "--json"} <= switches(o.TraceOptions)


@pytest.mark.parametrize("page", ["commands/check.md", "guides/ci.md"])
def test_the_budget_files_in_the_pages_are_valid(page: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        file = tmp_path / "paths.toml"
        file.write_text(block)
        targets = targets_of(CheckOptions(config=str(file)), {"LLM_KEY": "k-12345678"})
        assert len(targets) == 2 and all(target.budgets for target in targets)
