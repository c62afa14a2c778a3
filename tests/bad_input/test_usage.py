"""What is wrong before any packet: exit 2, what was expected and a hint, nothing written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bad_input.tool import CHAT, KEY, Run, trace
from tests.peers.scripted import HOLD, ReadRequest, ScriptedOrigin, response

URLS = {
    "no scheme": ("127.0.0.1:1" + CHAT, "no scheme", "https://127.0.0.1:1"),
    "an unknown scheme": ("ftp://127.0.0.1/", "unknown scheme", "http"),
    "port 0": ("http://127.0.0.1:0/", "port 0", "1 to 65535"),
    "port 65536": ("http://127.0.0.1:65536/", "bad port", "1 to 65535"),
    "no host": ("http:///v1/messages", "no host", "HOST"),
    "a bad IPv6 address": ("http://[::zz]/", "bad", "IPv6"),
    "a label too long": (f"http://{'a' * 64}.test/", "bad host name", "63"),
    "a control character": ("http://127.0.0.1/\x1b[2J", "control", "%20"),
    "a login": (f"http://user:{KEY}@127.0.0.1/", "credentials", "--key-env"),
}

OPTIONS = {
    "an unknown dialect": (["--dialect", "klingon"], "dialect", "openai"),
    "an override without an address": (["--resolve", "localhost:1"], "--resolve", "HOST:PORT:ADDR"),
    "a resolver by name": (["--resolver", "dns.test"], "not an IP address", ""),
    "both families": (["-4", "-6"], "-4", ""),
    "no such proxy scheme": (["--proxy", "gopher://127.0.0.1:1"], "proxy scheme", "socks5"),
    "a missing CA file": (["--cacert", "missing.pem"], "cannot read --cacert", ""),
    "an unwritable key log": (["--keylog", "missing/keys"], "cannot write --keylog", ""),
    "a time that is none": (["--timeout", "soon"], "--timeout", "30s"),
    "a size that is none": (["--max-bytes", "lots"], "size", ""),
    "a header without a colon": (["-H", "nonsense"], "bad header", "Name: value"),
    "a header with a line break": (["-H", "x: a\r\nhost: b"], "bad value", "printable"),
    "an option nobody knows": (["--fast"], "--fast", "--help"),
    "a format nobody knows": (["-o", "trace.docx"], ".docx", ".json"),
}


def refused(result: Run, what: str, remedy: str = "") -> None:
    """Exit 2: what is wrong, and what to do, on stderr alone; no file is left."""
    assert result.code == 2, f"exit {result.code}: {result.out}{result.err}"
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert what in result.err
    assert remedy in result.err
    assert "hint: " in result.err or "expected: " in result.err, f"no advice: {result.err}"
    assert sorted(path.name for path in result.directory.iterdir()) == ["stderr", "stdout"]


@pytest.mark.parametrize(("url", "what", "remedy"), URLS.values(), ids=URLS.keys())
def test_a_wrong_url_says_what_is_wrong_and_what_to_type(
    tmp_path: Path, url: str, what: str, remedy: str
) -> None:
    refused(trace(tmp_path, url), what, remedy)


@pytest.mark.parametrize(("options", "what", "remedy"), OPTIONS.values(), ids=OPTIONS.keys())
def test_a_wrong_option_says_what_is_wrong_and_what_to_type(
    tmp_path: Path, options: Sequence[str], what: str, remedy: str
) -> None:
    refused(trace(tmp_path, "http://127.0.0.1:1" + CHAT, *options), what, remedy)


def test_a_key_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    result = trace(tmp_path, "http://127.0.0.1:1" + CHAT, "--key-env", "UNSET", key=False)
    refused(result, "UNSET is not set", "export UNSET=")


@pytest.mark.parametrize(
    ("url", "variable"),
    [
        ("https://api.openai.com" + CHAT, "OPENAI_API_KEY"),
        ("https://api.anthropic.com/v1/messages", "ANTHROPIC_API_KEY"),
    ],
)
def test_a_vendor_without_a_key_is_refused_before_any_packet(
    tmp_path: Path, url: str, variable: str
) -> None:
    with ScriptedOrigin([HOLD]) as proxy:
        result = trace(tmp_path, url, "--proxy", f"http://{proxy.authority}", key=False)
        assert proxy.connections == []
    refused(result, f"{variable} is not set", f"export {variable}=")


def test_a_key_that_no_header_may_carry_is_not_shown(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1" + CHAT
    result = trace(tmp_path, url, PROMPTPATH_TEST_KEY=f"{KEY}\r\nhost: elsewhere")
    refused(result, "the key holds characters")


def test_a_missing_data_file_is_named(tmp_path: Path) -> None:
    url = "http://127.0.0.1:1" + CHAT
    result = trace(tmp_path, url, "--data", "@missing.json", prompt=False)
    refused(result, "cannot read 'missing.json'", "--data")


CURLS = {
    "an unknown option": "curl --frobnicate https://localhost/",
    "no URL": "curl -d x",
    "a missing value": "curl https://localhost/ -H",
    "an open quote": "curl 'https://localhost/",
    "a missing file": "curl http://localhost/ -d @missing.json",
}


@pytest.mark.parametrize("command", CURLS.values(), ids=CURLS.keys())
def test_a_wrong_curl_command_is_refused(tmp_path: Path, command: str) -> None:
    result = trace(tmp_path, None, "--curl", command, prompt=False, model=None)
    refused(result, "")


def test_http3_in_the_clear_is_refused(tmp_path: Path) -> None:
    result = trace(tmp_path, "http://127.0.0.1:1" + CHAT, "--http", "3")
    refused(result, "HTTP/3")


def test_a_prompt_for_a_url_that_takes_none_is_refused(tmp_path: Path) -> None:
    result = trace(tmp_path, "http://127.0.0.1:1/", model=None)
    refused(result, "names no API", "--dialect")


def test_a_missing_model_lists_what_the_endpoint_offers(tmp_path: Path) -> None:
    offer = b'{"data": [{"id": "small\\u001b[2J"}, {"id": "large"}]}'
    with ScriptedOrigin([ReadRequest(), response(200, offer, "application/json")]) as origin:
        result = trace(tmp_path, origin.url(CHAT), model=None)
        requests = origin.requests
    refused(result, "no model named", "it offers small")
    assert "large" in result.err
    assert requests[0].startswith(b"GET /v1/models ")


@pytest.mark.parametrize(
    "answer",
    [
        response(401, b"no", "text/plain"),
        response(200, b"[" * 100_000, "application/json"),
        b"\x00\x01\x02",
        b"",
    ],
    ids=["refused", "deep nesting", "garbage", "nothing"],
)
def test_a_missing_model_is_named_whatever_the_list_of_models_is(
    tmp_path: Path, answer: bytes
) -> None:
    with ScriptedOrigin([ReadRequest(), answer]) as origin:
        result = trace(tmp_path, origin.url(CHAT), model=None)
    refused(result, "no model named", "--model NAME")


def test_a_header_of_a_megabyte_is_an_answer_not_a_crash(tmp_path: Path) -> None:
    # One argument of execve may have 128 KiB at most on Linux (MAX_ARG_STRLEN).
    huge = [part for _ in range(10) for part in ("-H", "x-huge: " + "a" * 100_000)]
    too_large = response(431, b"too large", "text/plain")
    with ScriptedOrigin([ReadRequest(), too_large]) as origin:
        result = trace(tmp_path, origin.url(CHAT), *huge)
    assert result.code == 1
    assert "PP503" in result.codes()
    assert "aaaa" not in result.out + (tmp_path / "trace.json").read_text()
