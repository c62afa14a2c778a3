from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from promptpath.cli.options import TraceOptions
from promptpath.cli.plan_builder import Prepared, parse_override, prepare
from promptpath.errors import UsageError
from promptpath.model.plan import Family, HttpChoice, Limits, Override, Plan, ProxyKind
from promptpath.model.redact import plan_record
from promptpath.model.units import NS_PER_MS, NS_PER_S

OPENAI = "https://api.openai.com/v1/chat/completions"
LOCAL = "https://llm.example/v1/chat/completions"


def prepared(
    url: str | None = LOCAL, environ: dict[str, str] | None = None, **options: Any
) -> Prepared:
    if "model" not in options and options.get("data") is None and options.get("curl") is None:
        options["model"] = "m1"
    return prepare(TraceOptions(url=url, **options), environ or {})


def plan(url: str | None = LOCAL, environ: dict[str, str] | None = None, **options: Any) -> Plan:
    return prepared(url, environ, **options).plan


def refused(url: str | None = LOCAL, environ: dict[str, str] | None = None, **options: Any) -> str:
    with pytest.raises(UsageError) as raised:
        plan(url, environ, **options)
    return "\n".join(raised.value.lines())


def test_a_known_path_is_asked_in_its_dialect() -> None:
    made = plan(prompt="Hi", max_tokens=7)
    assert (made.method, made.dialect, made.model, made.prompt) == (
        "POST",
        "openai-chat",
        "m1",
        "Hi",
    )
    body = json.loads(made.body or b"")
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert (body["stream"], body["max_tokens"]) == (True, 7)
    assert dict(made.headers)["content-type"] == "application/json"


def test_the_other_dialect_is_known_by_its_path_or_by_name() -> None:
    by_path = plan("https://llm.example/v1/messages")
    by_name = plan("https://llm.example/chat", dialect="anthropic")
    assert by_path.dialect == by_name.dialect == "anthropic"
    assert "anthropic-version" in dict(by_name.headers)


def test_an_unknown_path_is_a_get_and_says_so() -> None:
    made = prepared("https://example.com/", model=None)
    assert (made.plan.method, made.plan.body, made.plan.dialect) == ("GET", None, None)
    assert "a GET is sent" in made.notices[0]


def test_a_prompt_for_an_unknown_path_is_refused() -> None:
    said = refused("https://example.com/", prompt="Hi", model=None)
    assert "/chat/completions" in said and "--dialect" in said


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    assert "openai-chat" in refused(dialect="klingon")


def test_a_body_of_ones_own_is_sent_as_it_is(tmp_path: Path) -> None:
    body = b'{"model": "mine", "messages": [{"role": "user", "content": "secret text"}] }\n'
    file = tmp_path / "body.json"
    file.write_bytes(body)
    made = plan("https://example.com/anything", data=f"@{file}")
    assert (made.method, made.body, made.model) == ("POST", body, "mine")
    assert plan("https://example.com/", data="x").body == b"x"
    assert "not both" in refused(data="x", prompt="Hi")
    assert "cannot read" in refused(data="@/nonexistent/body.json")


def test_a_pasted_curl_command_is_the_request() -> None:
    made = prepared(
        None,
        {"OPENAI_API_KEY": "sk-secret-1234567890"},
        curl=f'curl {OPENAI} -k -H "Authorization: Bearer $OPENAI_API_KEY" -d \'{{"model":"m"}}\'',
        timeout="9",
    )
    assert made.plan.target.host == "api.openai.com"
    assert (made.plan.method, made.plan.model, made.plan.insecure) == ("POST", "m", True)
    assert ("authorization", "Bearer sk-secret-1234567890") in made.plan.headers
    assert made.plan.limits.total_ns == 9 * NS_PER_S
    assert "its own URL" in refused(OPENAI, curl="curl x")


def test_a_vendors_own_host_gets_its_usual_key() -> None:
    made = prepared(OPENAI, {"OPENAI_API_KEY": "sk-secret-1234567890"})
    assert ("authorization", "Bearer sk-secret-1234567890") in made.plan.headers
    assert made.key is not None and made.key.value == "sk-secret-1234567890"


def test_a_missing_key_is_found_before_anything_is_sent() -> None:
    assert "OPENAI_API_KEY is not set" in refused(OPENAI)
    assert "MY_KEY is not set" in refused(LOCAL, key_env="MY_KEY")


def test_a_key_does_not_go_to_a_host_it_does_not_belong_to() -> None:
    made = prepared(LOCAL, {"OPENAI_API_KEY": "sk-secret-1234567890"})
    assert made.key is None and "authorization" not in dict(made.plan.headers)
    assert any("--key-env OPENAI_API_KEY" in notice for notice in made.notices)
    named = prepared(LOCAL, {"K": "sk-secret-1234567890"}, key_env="K")
    assert ("authorization", "Bearer sk-secret-1234567890") in named.plan.headers


def test_a_key_in_clear_text_is_noted() -> None:
    url = "http://llm.example/v1/chat/completions"
    made = prepared(url, {"K": "sk-secret-1234567890"}, key_env="K")
    assert any("clear text" in notice for notice in made.notices)


def test_headers_of_the_user_win() -> None:
    made = plan(OPENAI, header=["Authorization: Bearer mine", "Content-Type: text/x"])
    assert dict(made.headers)["authorization"] == "Bearer mine"
    assert dict(made.headers)["content-type"] == "text/x"
    for wrong in ("no colon", "na me: x", ": x", "name: a\nb", "name: \u00fc"):
        assert "header" in refused(header=[wrong])


def test_an_accept_encoding_header_is_the_option() -> None:
    made = plan(header=["Accept-Encoding: gzip"])
    assert made.accept_encoding == "gzip" and "accept-encoding" not in dict(made.headers)


def test_headers_of_the_connection_itself_are_refused() -> None:
    assert "--resolve" in refused(header=["Host: other.example"])
    assert "--resolve" in refused(None, curl="curl https://192.0.2.1/ -H 'Host: x.example'")
    assert "content-length" in refused(header=["Content-Length: 5"])


def test_no_secret_reaches_a_record_a_repr_or_an_error() -> None:
    secret = "sk-secret-1234567890"
    made = prepared(
        f"{OPENAI}?key={secret}",
        {"OPENAI_API_KEY": secret, "HTTPS_PROXY": f"http://me:{secret}@proxy:3128"},
        prompt=secret,
    )
    assert secret not in repr(plan_record(made.plan))
    assert secret not in repr(made.key)
    assert secret not in refused(OPENAI, header=[f"Authorization {secret}"])
    assert secret not in refused(OPENAI, proxy=f"ftp://{secret}@proxy")


def test_dial_options_reach_the_plan() -> None:
    made = plan(
        http="2",
        ipv4=True,
        resolve=["llm.example:443:192.0.2.7", "llm.example:443:[2001:db8::7]"],
        resolver="[2001:db8::53]:5353",
        proxy="socks5h://proxy",
        source="192.0.2.1",
        interface="eth0",
        sni="other.example",
        insecure=True,
        accept_encoding="gzip",
    )
    assert (made.http, made.family) == (HttpChoice.H2, Family.IPV4)
    assert made.overrides == (
        Override(host="llm.example", port=443, address="192.0.2.7"),
        Override(host="llm.example", port=443, address="2001:db8::7"),
    )
    assert made.resolver == ("2001:db8::53", 5353)
    assert made.proxy is not None and made.proxy.kind is ProxyKind.SOCKS5H
    assert (made.source_address, made.interface) == ("192.0.2.1", "eth0")
    assert (made.sni, made.insecure, made.accept_encoding) == ("other.example", True, "gzip")
    assert plan(sni="").sni == "" and plan().sni is None


def test_limits_and_budgets_reach_the_plan() -> None:
    made = plan(
        timeout="20s",
        connect_timeout="500ms",
        first_token_timeout="3",
        idle_timeout="1.5s",
        max_bytes="8k",
        budget_ttft="800ms",
        budget_total="10s",
        budget_itl_p99="50ms",
    )
    assert made.limits == Limits(
        connect_ns=500 * NS_PER_MS,
        first_token_ns=3 * NS_PER_S,
        idle_ns=1500 * NS_PER_MS,
        total_ns=20 * NS_PER_S,
        max_bytes=8000,
    )
    budgets = made.budgets
    assert (budgets.ttft_ns, budgets.total_ns) == (800 * NS_PER_MS, 10 * NS_PER_S)
    assert budgets.itl_p99_ns == 50 * NS_PER_MS
    assert plan().limits == Limits()


def test_wrong_values_name_their_option() -> None:
    assert "--connect-timeout" in refused(connect_timeout="soon")
    assert "--budget-ttft" in refused(budget_ttft="0")
    assert "not a size" in refused(max_bytes="much")
    assert "auto, 1.1, 2, 3 or race" in refused(http="4")
    assert "exclude one another" in refused(ipv4=True, ipv6=True)
    assert "other address family" in refused("https://[::1]/", ipv4=True, model=None)
    assert "other address family" in refused("https://192.0.2.1/", ipv6=True, model=None)
    assert "not an IP address" in refused(source="eth0")
    assert "cannot read --cacert" in refused(cacert="/nonexistent/ca.pem")
    assert "cannot write --keylog" in refused(keylog="/nonexistent/keys")


def test_http_3_is_for_https_without_a_proxy() -> None:
    assert "needs an https URL" in refused(url="http://h/v1/messages", http="3")
    assert "cannot go through" in refused(http="3", proxy="http://p:1")
    assert "over QUIC only" in refused(early_data=True)


@pytest.mark.parametrize(
    "text", ["h", "h:443", "h:0:1.2.3.4", "h:443:name", ":443:1.2.3.4", "h:x:1.2.3.4"]
)
def test_a_wrong_override_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_override(text)
