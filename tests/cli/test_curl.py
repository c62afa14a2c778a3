from __future__ import annotations

import json
from pathlib import Path

import pytest

from promptpath.cli.curl import CurlRequest, parse_curl
from promptpath.errors import UsageError


def parse(command: str, **environ: str) -> CurlRequest:
    return parse_curl(command, environ)


def test_the_example_of_a_vendors_documentation_is_understood() -> None:
    request = parse(
        "curl https://api.openai.com/v1/chat/completions \\\n"
        '  -H "Content-Type: application/json" \\\n'
        '  -H "Authorization: Bearer $OPENAI_API_KEY" \\\n'
        '  -d \'{"model": "m", "stream": true}\'',
        OPENAI_API_KEY="sk-test-123456",
    )
    assert request.url == "https://api.openai.com/v1/chat/completions"
    assert request.method == "POST"
    assert request.headers == (
        ("content-type", "application/json"),
        ("authorization", "Bearer sk-test-123456"),
    )
    assert json.loads(request.body or b"") == {"model": "m", "stream": True}


def test_the_copy_of_a_browser_is_understood() -> None:
    request = parse(
        "curl 'https://h.example/v1/messages' --compressed -X POST -k "
        r"--data-raw $'{\"prompt\":\"it\'s\"}' -b 'session=abc' -A agent/1"
    )
    assert request.body == b'{"prompt":"it\'s"}'
    assert request.insecure and request.accept_encoding == "gzip, deflate"
    assert ("cookie", "session=abc") in request.headers
    assert ("user-agent", "agent/1") in request.headers


@pytest.mark.parametrize(
    ("command", "method", "body"),
    [
        ("curl https://h/", "GET", None),
        ("curl https://h/ -d a -d b", "POST", b"a&b"),
        ("curl https://h/ --json '{' --json '}'", "POST", b"{}"),
        ("curl https://h/ -X put -d a", "PUT", b"a"),
        ("curl -sSNXPOST https://h/", "POST", None),
        ("curl https://h/ -d ''", "POST", b""),
        ("curl https://h/ --data-raw @x", "POST", b"@x"),
        ("curl --request=DELETE --url=https://h/", "DELETE", None),
    ],
)
def test_method_and_body_are_curls(command: str, method: str, body: bytes | None) -> None:
    request = parse(command)
    assert (request.method, request.body) == (method, body)


def test_a_body_has_curls_content_type() -> None:
    assert ("content-type", "application/x-www-form-urlencoded") in parse("curl h -d a").headers
    assert ("content-type", "application/json") in parse("curl h --json '{}'").headers


def test_files_are_read_as_curl_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"a\r\nb\n")
    assert parse(f"curl h -d @{file}").body == b"ab"
    assert parse(f"curl h --data-binary @{file}").body == b"a\r\nb\n"
    with pytest.raises(UsageError, match="cannot read"):
        parse(f"curl h -d @{tmp_path}/missing")


def test_get_puts_the_data_in_the_query() -> None:
    request = parse("curl -G https://h/x?a=1 -d b=2")
    assert (request.url, request.method, request.body) == ("https://h/x?a=1&b=2", "GET", None)


def test_dial_options_are_taken_over() -> None:
    request = parse(
        "curl h --http1.1 -4 -x http://p:3128 --cacert ca.pem --resolve h:443:192.0.2.1 "
        "--interface eth0 -m 30 --connect-timeout 5"
    )
    assert request.url == "http://h"
    assert (request.http, request.ipv4, request.proxy) == ("1.1", True, "http://p:3128")
    assert (request.cacert, request.resolve) == ("ca.pem", ("h:443:192.0.2.1",))
    assert (request.interface, request.timeout, request.connect_timeout) == ("eth0", "30", "5")


def test_headers_of_the_browsers_own_connection_are_left_out() -> None:
    request = parse(
        "curl h -H 'Connection: keep-alive' -H 'Content-Length: 9' -H 'Accept-Encoding: gzip, br'"
    )
    assert request.headers == () and request.accept_encoding == "gzip, br"


def test_a_user_becomes_a_basic_header() -> None:
    assert parse("curl h -u me:secret").headers == (("authorization", "Basic bWU6c2VjcmV0"),)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("curl h --unix-socket /x", "--unix-socket"),
        ("curl h -F a=b", "-F"),
        ("curl h -sQ", "-Q"),
        ("curl h --http2-prior-knowledge", "--http2-prior-knowledge"),
        ("curl h --silent=yes", "--silent"),
        ("curl h -d", "-d wants a value"),
        ("curl h --data", "--data wants a value"),
        ("curl h i", "two URLs"),
        ("curl -s", "no URL"),
        ("wget h", "curl command"),
        ("", "curl command"),
        ("curl h -u me", "user:password"),
        ("curl h -H @file", "-H @FILE"),
        ("curl h -b jar", "-b FILE"),
    ],
)
def test_what_is_not_understood_is_named(command: str, named: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(command)
    assert named in raised.value.what


def test_secrets_do_not_show_in_a_repr() -> None:
    request = parse(
        "curl https://h/?key=s3cret -H 'x-api-key: s3cret' -d s3cret -x http://u:s3cret@p"
    )
    assert "s3cret" not in repr(request)
