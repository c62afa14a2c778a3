from __future__ import annotations

from xml.etree.ElementTree import Element, fromstring

from hypothesis import given
from hypothesis import strategies as st

from promptpath.analysis.check import CheckResult
from promptpath.export.junit import legal, write
from tests.export.checks import WORSE, check


def parsed(result: CheckResult) -> Element:
    return fromstring(b"".join(write(result)))


def cases(root: Element, suite: str) -> dict[str, str]:
    """The cases of a suite with what became of each."""
    found = root.find(f"testsuite[@name='{suite}']")
    assert found is not None
    tags = ("failure", "error", "skipped")
    return {
        case.get("name", ""): next((tag for tag in tags if case.find(tag) is not None), "passed")
        for case in found
    }


def test_budgets_and_failing_findings_are_cases() -> None:
    root = parsed(check())
    assert cases(root, "chat") == {
        "measured": "passed",
        "max-ttft 2.00 s": "passed",
        "require-streaming": "failure",
        "max-hold 2.00 s": "skipped",
        "PP412 why": "failure",
    }
    assert cases(root, "good") == {"measured": "passed", "max-ttft 2.00 s": "passed"}


def test_a_target_that_is_down_is_an_error_and_no_failure() -> None:
    for strict in (False, True):
        found = cases(parsed(check(strict=strict)), "down")
        assert found == {"measured": "error", "max-ttft 2.00 s": "skipped"}


def test_strict_makes_an_inconclusive_budget_a_failure() -> None:
    assert cases(parsed(check(strict=True)), "chat")["max-hold 2.00 s"] == "failure"


def test_the_counts_are_those_of_the_cases() -> None:
    root = parsed(check())
    names = ("tests", "failures", "errors", "skipped")
    assert [root.get(name) for name in names] == ["9", "2", "1", "2"]
    for suite in root:
        assert int(suite.get("tests", "")) == len(suite)


def test_hostile_text_is_well_formed_and_shown_as_it_is() -> None:
    root = parsed(check(name=WORSE, text=WORSE))
    text = "".join(root.itertext())
    assert "<script>" in text and "\x1b" not in text and "\\x00" in text and "\\ud800" in text


@given(st.text(max_size=60))
def test_any_text_is_legal_xml(text: str) -> None:
    root = parsed(check(name=text, text=text))
    assert root.find("testsuite[@name]") is not None
    assert legal(legal(text)) == legal(text)
