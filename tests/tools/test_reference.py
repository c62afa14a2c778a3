"""The generated pages are current, and they say what they must."""

from __future__ import annotations

from promptpath.analysis.rules import RULES
from promptpath.model import names
from tests.tools.reference import ROOT, generated, stale, trace_page


def test_the_generated_pages_are_current() -> None:
    wrong = [str(path.relative_to(ROOT)) for path in stale()]
    assert not wrong, "run: python -m tests.tools.reference"


def test_every_rule_has_a_page_with_its_four_answers() -> None:
    pages = {path.name: text for path, text in generated().items()}
    for rule in RULES:
        for words in (rule.title, rule.asks, rule.decided, rule.advice, rule.is_not):
            assert words in pages[f"{rule.code}.md"]


def test_every_name_of_the_trace_is_on_its_page() -> None:
    page = trace_page()
    constants = [value for name, value in vars(names).items() if name.isupper()]
    assert len(constants) > 50
    assert all(f"`{value}`" in page for value in constants)
