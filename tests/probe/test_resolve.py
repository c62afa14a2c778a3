"""Where the addresses to dial come from, and how each failure of a name is told apart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from promptpath.errors import MeasureError
from promptpath.model.enums import Outcome
from promptpath.model.plan import Family, Override, Plan
from promptpath.model.urls import parse_url
from promptpath.probe import resolve as module
from promptpath.probe.clock import RunClock
from promptpath.probe.recorder import Recorder
from promptpath.probe.resolve import resolve

PLAN = Plan(target=parse_url("https://ai.example/v1"))


def run(plan: Plan, host: str, port: int = 443) -> tuple[Recorder, tuple[str, ...]]:
    recorder = Recorder(RunClock.start())
    return recorder, asyncio.run(resolve(recorder, plan, host, port))


def source(recorder: Recorder) -> object:
    return {fact.key: fact.value for fact in recorder.log.facts}.get("dns.source")


def test_an_ip_literal_is_its_own_answer() -> None:
    recorder, addresses = run(PLAN, "192.0.2.7")
    assert addresses == ("192.0.2.7",)
    assert source(recorder) == "literal"
    (span,) = recorder.log.spans
    assert (span.name, span.outcome) == ("resolve", Outcome.OK)


def test_an_override_wins_for_its_host_and_port_only() -> None:
    override = Override(host="ai.example", port=443, address="192.0.2.9")
    plan = replace(PLAN, overrides=(override,))
    recorder, addresses = run(plan, "AI.example")
    assert (addresses, source(recorder)) == (("192.0.2.9",), "override")
    recorder, addresses = run(replace(plan, overrides=(replace(override, port=80),)), "127.0.0.1")
    assert source(recorder) == "literal"


def test_a_name_of_the_hosts_file_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost # the usual\n::1 LOCALHOST\n")
    monkeypatch.setattr(module, "HOSTS_FILE", hosts)
    recorder, addresses = run(replace(PLAN, family=Family.IPV4), "localhost")
    assert addresses == ("127.0.0.1",)
    assert source(recorder) == "hosts"
    monkeypatch.setattr(module, "HOSTS_FILE", tmp_path / "missing")
    recorder, addresses = run(replace(PLAN, family=Family.IPV4), "localhost")
    assert source(recorder) == "system"


def test_a_literal_of_the_other_family_is_no_address() -> None:
    with pytest.raises(MeasureError) as failure:
        run(replace(PLAN, family=Family.IPV6), "192.0.2.7")
    assert (failure.value.stage, failure.value.code) == ("dns", "no-address")
    assert "-4 and -6" in (failure.value.hint or "")


def test_a_name_that_does_not_exist_is_told_apart_and_recorded() -> None:
    recorder = Recorder(RunClock.start())
    with pytest.raises(MeasureError) as failure:
        asyncio.run(resolve(recorder, PLAN, "no-such-name.invalid", 443))
    # Offline machines answer EAI_AGAIN where online ones answer EAI_NONAME.
    assert failure.value.code in {"no-such-name", "resolver-failed"}
    assert failure.value.hint
    (span,) = recorder.log.spans
    assert span.outcome is Outcome.FAILED
    assert span.end_ns is not None


def test_with_one_family_asked_for_the_hint_names_the_option() -> None:
    for family, named in ((Family.ANY, False), (Family.IPV6, True)):
        with pytest.raises(MeasureError) as failure:
            run(replace(PLAN, family=family), "no-such-name.invalid")
        assert ("leave out -4 / -6" in (failure.value.hint or "")) is named


def test_an_interrupted_resolution_leaves_a_cancelled_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Recorder(RunClock.start())

    async def interrupted() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(module, "_getaddrinfo", lambda *_: loop.create_future())
        task = asyncio.create_task(resolve(recorder, PLAN, "ai.example", 443))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())
    (span,) = recorder.log.spans
    assert span.outcome is Outcome.CANCELLED


def test_a_resolver_that_never_answers_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module, "_getaddrinfo", lambda *_: asyncio.get_running_loop().create_future()
    )
    plan = replace(PLAN, limits=replace(PLAN.limits, connect_ns=2_000_000))
    with pytest.raises(MeasureError) as failure:
        run(plan, "ai.example")
    assert failure.value.code == "resolver-timeout"
