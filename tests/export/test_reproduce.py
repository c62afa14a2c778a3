from __future__ import annotations

import shlex
from dataclasses import replace

from promptpath.export.reproduce import command, omissions
from promptpath.model.plan import (
    Budgets,
    Family,
    HttpChoice,
    Limits,
    Override,
    Plan,
    ProxyKind,
    ProxyPlan,
    Target,
)
from promptpath.model.redact import plan_record
from promptpath.model.units import NS_PER_S

SECRET = "sk-secret-1234567890"
PLAN = Plan(
    target=Target(scheme="https", host="llm.example", port=443, path=f"/v1/x?key={SECRET}&a=1"),
    method="POST",
    dialect="openai-chat",
    model="m 1",
    headers=(("authorization", f"Bearer {SECRET}"), ("content-type", "application/json")),
    http=HttpChoice.H2,
    family=Family.IPV6,
    overrides=(Override(host="llm.example", port=443, address="192.0.2.7"),),
    proxy=ProxyPlan(kind=ProxyKind.HTTP, host="proxy", port=3128, password=SECRET),
    insecure=True,
    prompt="It's\nslow",
    limits=Limits(idle_ns=1_500_000_000),
    budgets=Budgets(ttft_ns=2 * NS_PER_S),
    repeat=3,
    warm=True,
)


def test_the_command_repeats_the_plan() -> None:
    words = shlex.split(command(plan_record(PLAN)))
    assert words[:2] == ["promptpath", "trace"]
    rest = " ".join(words[3:])
    assert rest == (
        "--http 2 -6 --resolve llm.example:443:192.0.2.7 --proxy http://proxy:3128 --insecure "
        "--dialect openai-chat --model m 1 --idle-timeout 1500ms --budget-ttft 2000ms "
        "--repeat 3 --warm"
    )


def test_no_secret_is_in_it_and_what_is_missing_is_said() -> None:
    record = plan_record(PLAN)
    assert SECRET not in command(record)
    missing = omissions(record)
    assert missing == [
        "the values of the headers authorization",
        "the secret in the URL's query",
        "the prompt of 9 characters (--prompt)",
    ]


def test_a_kept_prompt_is_in_it() -> None:
    record = plan_record(replace(PLAN, keep_content=True))
    assert "It's\nslow" in shlex.split(command(record))
    assert not any("--prompt" in line for line in omissions(record))


def test_a_plain_plan_is_a_plain_command() -> None:
    record = plan_record(Plan(target=PLAN.target))
    assert command(record).startswith("promptpath trace 'https://llm.example/v1/x?key=REDACTED")
