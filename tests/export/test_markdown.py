from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from promptpath.export.markdown import code, escape, write
from promptpath.model.document import Document
from promptpath.model.names import HTTP_HEADERS, HTTP_REQUEST_ID
from promptpath.model.redact import printable
from tests.export.documents import HOSTILE, REPORT, by_hand, document, hostile_trip, trip

TEXT = st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=60)


def markdown(made: Document) -> str:
    return b"".join(write(made)).decode()


def rendered(text: str) -> str:
    return str(MarkdownIt("commonmark").enable("table").render(text))


def test_what_a_vendor_asks_for_comes_first() -> None:
    made = trip(
        facts={
            HTTP_REQUEST_ID: {"header": "x-request-id", "value": "req_1"},
            HTTP_HEADERS: [["cf-ray", "8c135d3eeec4a97a-AMS"]],
        }
    )
    lines = markdown(document([made])).splitlines()
    assert lines[2:6] == [
        "- request id: `req_1 (x-request-id)`",
        "- POP: `AMS (cf-ray)`",
        "- address: `192.0.2.1:443`",
        "- time: `2026-09-21 14:13:20 UTC`",
    ]


def test_the_table_the_findings_and_the_command_follow() -> None:
    text = markdown(by_hand())
    assert "| &nbsp;&nbsp;queue | 40.0 ms | 0 ns | 4% | reported |  |" in text
    assert "| request upload | 500 us | 2 us | &lt;1% |  |  |" in text
    assert "First token (TTFT) at 500 ms ± 12 us, 450 ms after the request." in text
    assert "- **PP999** (warning) Something is odd\n  - it took 10.0 ms\n" in text
    assert "    promptpath trace https://llm.example/v1/chat/completions\n" in text
    assert text.endswith(
        "\nMeasured by promptpath 0.0.0 (kernel clock, 95% of events certified exact).\n"
    )


def test_the_page_renders_as_one_table_with_every_hop() -> None:
    page = rendered(markdown(by_hand()))
    assert page.count("<table>") == 1
    assert page.count("<tr>") == len(REPORT.hops) + 2


def test_several_runs_end_in_a_table_of_medians() -> None:
    text = markdown(document([trip(), trip(kind="warm")]))
    assert "## Run 2 of 2" in text and "| | cold | warm |" in text
    assert rendered(text).count("<table>") == 3


def test_hostile_text_stays_text() -> None:
    findings = (replace(REPORT.findings[0], title=HOSTILE, advice=HOSTILE),)
    hops = (replace(REPORT.hops[0], title=HOSTILE, drivers=(HOSTILE,)),)
    for made in (document([hostile_trip()]), by_hand(findings=findings, hops=hops)):
        text = markdown(made)
        assert "\x1b" not in text and "\u202e" not in text
        page = rendered(text)
        assert "<script" not in page and "<a " not in page and "<strong>b" not in page
        without_code = re.sub(r"<code>.*?</code>", "", page)
        assert "@" not in without_code


@given(TEXT)
def test_escaped_text_renders_as_itself(text: str) -> None:
    page = MarkdownIt("commonmark").render(f"x {escape(text)}")
    inner = page.removeprefix("<p>").removesuffix("</p>\n").replace("<code>@</code>", "@")
    assert html.unescape(inner).split() == ["x", *printable(text).split()]


@given(TEXT)
def test_escaped_text_is_no_link_list_or_tag_in_a_list_item(text: str) -> None:
    page = MarkdownIt("commonmark").render(f"- {escape(text)}")
    assert set(re.findall(r"<(\w+)", page)) <= {"ul", "li", "code"}
    assert page.count("<code>") == page.count("<code>@</code>")


@given(TEXT)
def test_code_renders_as_one_piece_of_code(text: str) -> None:
    page = MarkdownIt("commonmark").render(f"x: {code(text)}")
    assert page.count("<code>") == 1


@pytest.mark.parametrize("text", ["1.84 s", "0.1.0", "a - b", "PP401"])
def test_harmless_text_is_not_disfigured(text: str) -> None:
    assert escape(text) == text
