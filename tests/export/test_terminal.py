from __future__ import annotations

from dataclasses import replace

import pytest

from promptpath.analysis.sentence import sentence
from promptpath.export.terminal import render
from promptpath.export.terminal.waterfall import place
from promptpath.model.enums import Stage
from tests.analysis.build import TraceBuilder
from tests.export.documents import HOSTILE, REPORT, by_hand, document, hostile_trip, trip

WHOLE = """\
POST https://llm.example/v1/chat/completions
  status 200, TLS 1.3, 192.0.2.1:443
  openai-chat (by payload)
  time 2026-09-21 14:13:20 UTC

hop                             time       +- share
name resolution              10.0 ms   200 us    1%  #
    from the system
TCP connect                  40.0 ms     2 us    4%  #
request upload                500 us     2 us   <1%   #
wait for the first token      450 ms     2 us   45%   #############
  queue *                    40.0 ms     0 ns    4%   ##
  way there and back ~       40.5 ms     2 us    4%
--- first token at 500 ms +- 12 us, 450 ms after the request -------------------
generation                    450 ms     2 us   45%               #############
    90 tokens; 20 events
finish                       49.0 ms     2 us    5%                           ##
between hops                 1.00 ms            <1%
total                         1.00 s
* reported by the far side, not measured; ~ inferred from the rest

stream   90 tokens (usage), 20 events, 4.5 tokens an event, 198 tokens/s
a token  p50 5.00 ms, p90 6.00 ms, p99 9.00 ms, max 10.0 ms
an event p50 23.0 ms, p90 30.0 ms, p99 45.0 ms, max 50.0 ms
stall    1, the longest 50.0 ms
server   says queue 40.0 ms, 7 prompt tokens cached (from Server-Timing)
clock    kernel clock, 95% of events certified exact, +-200 ns p50, 12 us p99

PP999 warning  Something is odd
    it took 10.0 ms
    twice
    > Look at it.
"""


def test_the_whole_view_is_this_text() -> None:
    verdict = sentence(REPORT).replace(" %", "%")
    assert render(by_hand()) == f"{WHOLE}\n{verdict}\n"


def test_plain_text_is_ascii_and_fits_its_width() -> None:
    for made in (by_hand(), document([trip()]), document([trip(), trip(kind="warm")])):
        for width in (60, 80, 132):
            text = render(made, width=width)
            assert text.isascii()
            assert max(map(len, text.splitlines())) <= width


def test_a_terminal_gets_colour_and_bars() -> None:
    text = render(by_hand(), width=100, color=True)
    assert "\x1b[" in text and "█" in text and "±" in text


def test_a_first_token_that_never_came_says_why() -> None:
    latency = replace(
        REPORT.latency, ttft_ms=None, ttft_request_ms=None, ttft_never="hidden reasoning only"
    )
    text = render(by_hand(latency=latency))
    assert "--- no visible token: hidden reasoning only ---" in text


def test_the_line_of_the_first_token_stands_before_generation_or_last() -> None:
    lines = render(by_hand()).splitlines()
    line = next(number for number, text in enumerate(lines) if text.startswith("---"))
    assert lines[line + 1].startswith("generation")
    hops = tuple(hop for hop in REPORT.hops if hop.stage in (Stage.DNS, Stage.TCP))
    lines = render(by_hand(hops=hops)).splitlines()
    line = next(number for number, text in enumerate(lines) if text.startswith("---"))
    assert lines[line - 1].startswith("TCP connect")


def test_far_side_text_moves_no_cursor_and_is_no_markup() -> None:
    for color in (False, True):
        text = render(document([hostile_trip()]), color=color)
        assert "\x1b[2J" not in text and "\u202e" not in text
        assert "\\x1b[2J" in text and "[x](https://evil.example)" in text


def test_hostile_words_of_a_report_are_made_safe_too() -> None:
    hops = (replace(REPORT.hops[0], title=HOSTILE, drivers=(HOSTILE,)),)
    findings = (replace(REPORT.findings[0], title=HOSTILE, advice=HOSTILE),)
    text = render(by_hand(hops=hops, findings=findings))
    assert text.isascii() and "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_failed_run_shows_where_it_stopped() -> None:
    trace = TraceBuilder().dns(5).fails(Stage.TCP, "refused", "connection refused").build()
    assert "  stopped at tcp: connection refused\n" in render(document([trace]))


def test_cold_and_warm_runs_stand_side_by_side() -> None:
    text = render(document([trip(), trip(kind="warm", wait_ms=200)]))
    assert "run 1 of 2" in text and "run 2 of 2" in text
    table = text[text.index("medians of 2 runs") :].splitlines()
    assert table[1].split() == ["cold", "(1)", "+-", "warm", "(1)", "+-", "saved"]
    wait = next(line for line in table if line.startswith("wait"))
    assert wait.split("  ")[-1].strip() == "100 ms"
    dns = next(line for line in table if line.startswith("name resolution"))
    assert dns.rstrip().endswith("-")


def test_many_cold_runs_show_their_extremes() -> None:
    text = render(document([trip(wait_ms=wait) for wait in (300, 310, 330)]))
    assert "run 3 of 3" in text and "run 1 of 3" not in text
    wait = next(line for line in text.splitlines() if line.startswith("wait  "))
    assert wait.split() == "wait 352 ms 10.0 ms 342 ms 372 ms".split()


@pytest.mark.parametrize(
    ("start", "length", "whole", "expected"),
    [
        (0, 100, 100, (0, 10)),
        (0, 0.001, 100, (0, 1)),
        (99.9, 0.1, 100, (9, 1)),
        (50, 25, 100, (5, 3)),
        (0, 0, 100, (0, 0)),
        (0, 5, 0, (0, 0)),
        (-5, 5, 100, (0, 1)),
        (0, 500, 100, (0, 10)),
    ],
)
def test_a_bar_lies_where_the_time_lies(
    start: float, length: float, whole: float, expected: tuple[int, int]
) -> None:
    assert place(start, length, whole, 10) == expected
