from __future__ import annotations

import json

import jsonschema

from promptpath.export.check_json import CHECK_SCHEMA, write
from promptpath.model.codec import json_schema
from tests.export.checks import check


def test_the_document_has_the_verdicts_and_the_reports_they_rest_on() -> None:
    value = json.loads(b"".join(write(check())))
    assert (value["schema"], value["exit_code"]) == (CHECK_SCHEMA, 3)
    chat, down, good = value["targets"]
    assert [chat["outcome"], down["outcome"], good["outcome"]] == ["failed", "unmeasured", "passed"]
    assert [(b["name"], b["verdict"], b["fails"]) for b in chat["budgets"]] == [
        ("max-ttft", "kept", False),
        ("require-streaming", "broken", True),
        ("max-hold", "inconclusive", False),
    ]
    assert chat["budgets"][0]["limit_ms"] == 2000 and chat["budgets"][0]["measured_ms"] == 1500
    assert chat["budgets"][1]["measured_ms"] is None
    assert [f["finding"]["code"] for f in chat["findings"] if f["fails"]] == ["PP412"]
    jsonschema.validate(chat["document"], json_schema())
    assert down["document"] is None and chat["idle"] is None
    assert down["problem"][0] == "stopped at tcp: refused"
