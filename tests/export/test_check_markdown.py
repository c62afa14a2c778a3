from __future__ import annotations

import re

from markdown_it import MarkdownIt

from promptpath.analysis.check import CheckResult
from promptpath.export.check_markdown import write
from tests.export.checks import WORSE, check


def rendered(result: CheckResult) -> str:
    text = b"".join(write(result)).decode()
    return str(MarkdownIt("commonmark").enable("table").render(text))


def test_a_table_a_target_and_the_findings_with_their_advice() -> None:
    page = rendered(check())
    assert page.count("<table>") == 3 and page.count("<h3>") == 3
    assert "3 targets: 1 passed, 1 failed, 1 unmeasured" in page
    assert "<td>require-streaming</td>\n<td>broken</td>" in page
    assert "<strong>PP412 why</strong> (error)" in page and "(allowed)" in page
    assert "PP527" not in page


def test_hostile_text_stays_text() -> None:
    page = rendered(check(name=WORSE, text=WORSE))
    assert "<script" not in page and "<a " not in page and "\x1b" not in page
    assert "@" not in re.sub(r"<code>.*?</code>", "", page)
