from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.errors import UsageError
from promptpath.model.plan import Target
from promptpath.model.urls import ip_literal, is_loopback, normal_host, parse_host_port, parse_url


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "path"),
    [
        ("https://api.example.com", "https", "api.example.com", 443, "/"),
        ("http://api.example.com", "http", "api.example.com", 80, "/"),
        ("HTTPS://API.Example.COM:8443/V1?a=b", "https", "api.example.com", 8443, "/V1?a=b"),
        ("https://[2001:DB8::1]:8443/x", "https", "2001:db8::1", 8443, "/x"),
        ("https://192.0.2.7/x#part", "https", "192.0.2.7", 443, "/x"),
        ("https://bücher.example/", "https", "xn--bcher-kva.example", 443, "/"),
        ("https://host/ü", "https", "host", 443, "/%C3%BC"),
        ("https://host/a%20b?c=d%26e", "https", "host", 443, "/a%20b?c=d%26e"),
        ("https://host?q", "https", "host", 443, "/?q"),
    ],
)
def test_a_url_is_taken_apart(text: str, scheme: str, host: str, port: int, path: str) -> None:
    assert parse_url(text) == Target(scheme=scheme, host=host, port=port, path=path)


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("api.example.com/v1", "no scheme", "https://api.example.com/v1"),
        ("localhost:8000/v1", "no scheme", "https://localhost:8000/v1"),
        ("//host/x", "no scheme", "https://host/x"),
        ("ftp://host/", "unknown scheme 'ftp'", ""),
        ("https://host:0/", "port 0", ""),
        ("https://host:65536/", "bad port", ""),
        ("https://host:x/", "bad port", ""),
        ("https://user:secret@host/", "credentials", "--key-env"),
        ("https://", "no host", ""),
        ("https:///path", "no host", ""),
        ("https://[::1", "bad address", "[2001:db8::1]"),
        ("https://[fe80::1%eth0]/", "a zone", "--interface"),
        ("https://1.2.3/", "bad IPv4", ""),
        ("https://256.1.1.1/", "bad IPv4", ""),
        ("https://-x.example/", "bad host name", ""),
        (f"https://{'a' * 64}.example/", "bad host name", ""),
        ("https://host/a b", "a blank", "%20"),
        ("https://host/\x1b[31m", "control character", ""),
    ],
)
def test_a_wrong_url_says_what_to_type(text: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_url(text)
    assert what in raised.value.what
    assert hint in (raised.value.hint or "")


def test_no_secret_of_a_wrong_url_is_shown() -> None:
    for text in ("https://user:hunter2@host/", "host/x?key=hunter2", "user:hunter2@host/x"):
        with pytest.raises(UsageError) as raised:
            parse_url(text)
        assert "hunter2" not in "\n".join(raised.value.lines())


@given(st.text(max_size=40))
def test_any_text_is_a_target_or_a_usage_error(text: str) -> None:
    try:
        target = parse_url(f"https://{text}")
    except UsageError:
        return
    assert target.host and target.path.isascii()


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("1.1.1.1", "1.1.1.1", 53),
        ("1.1.1.1:5353", "1.1.1.1", 5353),
        ("[::1]", "::1", 53),
        ("[2001:db8::1]:5353", "2001:db8::1", 5353),
        ("2001:DB8::1", "2001:db8::1", 53),
    ],
)
def test_an_address_may_have_a_port(text: str, address: str, port: int) -> None:
    assert parse_host_port(text, 53) == (address, port)


@pytest.mark.parametrize("text", ["", "dns.example", "1.1.1.1:0", "1.1.1.1:65536", "[::1]x", ":53"])
def test_a_wrong_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_host_port(text, 53)


def test_hosts_that_are_this_machine_are_known() -> None:
    assert all(is_loopback(host) for host in ("localhost", "a.localhost.", "127.0.0.2", "::1"))
    assert not any(is_loopback(host) for host in ("notlocalhost", "localhost.example", "10.0.0.1"))


def test_literals_take_their_normal_form() -> None:
    assert ip_literal("2001:DB8:0::1") == "2001:db8::1"
    assert normal_host("::FFFF") == "::ffff"
    with pytest.raises(UsageError):
        ip_literal("host")
