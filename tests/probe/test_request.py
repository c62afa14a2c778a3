"""The request of a plan: which header wins, and what only some requests carry."""

from __future__ import annotations

from dataclasses import replace

from promptpath.model.plan import ProxyKind, ProxyPlan
from promptpath.model.urls import parse_url
from promptpath.probe.request import build_request
from tests.probe.scripted_link import PLAN

PROXY = ProxyPlan(
    kind=ProxyKind.HTTP, host="proxy.example", port=3128, username="ada", password="pw"
)


def test_a_prompt_asks_for_the_servers_own_times_and_a_get_does_not() -> None:
    post, get = replace(PLAN, method="POST"), replace(PLAN, method="GET", body=None)
    assert ("x-promptpath-timing", "1") in build_request(
        post, PLAN.target, absolute_form=False
    ).headers
    untimed = replace(post, server_timing=False)
    for plan in (get, untimed):
        assert "x-promptpath-timing" not in dict(
            build_request(plan, PLAN.target, absolute_form=False).headers
        )
    assert build_request(get, PLAN.target, absolute_form=False).body == b""


def test_headers_of_the_plan_replace_our_defaults_whatever_their_case() -> None:
    plan = replace(PLAN, headers=(("User-Agent", "mine"), ("X-Two", "1"), ("x-two", "2")))
    headers = build_request(plan, plan.target, absolute_form=False).headers
    assert [value for name, value in headers if name == "user-agent"] == ["mine"]
    assert [value for name, value in headers if name == "x-two"] == ["1", "2"]
    assert dict(headers)["accept-encoding"] == "identity"


def test_the_target_is_the_path_or_the_whole_url_for_a_proxy() -> None:
    plan = replace(PLAN, target=parse_url("http://ai.example:8080/v1?x=1"), proxy=PROXY)
    direct = build_request(plan, plan.target, absolute_form=False)
    assert (direct.target, direct.authority) == ("/v1?x=1", "ai.example:8080")
    # In a tunnel the proxy's credentials are none of the origin's business.
    assert "proxy-authorization" not in dict(direct.headers)
    through = build_request(plan, plan.target, absolute_form=True)
    assert through.target == "http://ai.example:8080/v1?x=1"
    assert dict(through.headers)["proxy-authorization"] == "Basic YWRhOnB3"


def test_what_is_sent_keeps_out_of_what_is_shown() -> None:
    plan = replace(PLAN, headers=(("authorization", "Bearer sk-1"),), body=b"secret prompt")
    shown = repr(build_request(plan, plan.target, absolute_form=False))
    assert "sk-1" not in shown and "secret" not in shown
