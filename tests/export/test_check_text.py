from __future__ import annotations

from promptpath.export.check_text import render
from tests.export.checks import check


def test_each_budget_and_what_fails_with_its_advice_is_shown() -> None:
    assert render(check("chat", "because")).splitlines() == [
        "failed: chat (https://llm.example/v1/chat/completions)",
        "    because",
        "  ok max-ttft 2.00 s: kept; because",
        "  !! require-streaming: broken; because",
        "  ?? max-hold 2.00 s: inconclusive; because",
        "  !! PP412 because (error)",
        "       in 1 of 2 runs",
        "       it took 10.0 ms",
        "       twice",
        "       because",
        "  ok PP411 because (allowed)",
        "     PP419 because (warning)",
        "       in 1 of 2 runs",
        "       it took 10.0 ms",
        "       twice",
        "       because",
        "",
        "unmeasured: down (https://llm.example/v1/chat/completions)",
        "    stopped at tcp: refused",
        "    because",
        "  ?? max-ttft 2.00 s: inconclusive; why",
        "",
        "passed: good (https://llm.example/v1/chat/completions)",
        "  ok max-ttft 2.00 s: kept; because",
        "",
        "3 targets: 1 passed, 1 failed, 1 unmeasured",
    ]
