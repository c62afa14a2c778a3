from __future__ import annotations

import pytest

from promptpath.cli.proxies import choose_proxy, parse_proxy
from promptpath.errors import UsageError
from promptpath.model.plan import ProxyKind, ProxyPlan, Target


def target(host: str = "api.example.com", scheme: str = "https", port: int = 443) -> Target:
    return Target(scheme=scheme, host=host, port=port, path="/")


@pytest.mark.parametrize(
    ("text", "kind", "host", "port"),
    [
        ("http://proxy:3128", ProxyKind.HTTP, "proxy", 3128),
        ("proxy:3128", ProxyKind.HTTP, "proxy", 3128),
        ("http://proxy", ProxyKind.HTTP, "proxy", 80),
        ("https://proxy", ProxyKind.HTTPS, "proxy", 443),
        ("socks5://proxy", ProxyKind.SOCKS5, "proxy", 1080),
        ("SOCKS5H://[::1]:9050", ProxyKind.SOCKS5H, "::1", 9050),
    ],
)
def test_a_proxy_url_is_read(text: str, kind: ProxyKind, host: str, port: int) -> None:
    assert parse_proxy(text, source="option") == ProxyPlan(kind=kind, host=host, port=port)


def test_credentials_are_decoded_and_never_shown() -> None:
    proxy = parse_proxy("http://me:s%3Acret@proxy:3128", source="option")
    assert (proxy.username, proxy.password) == ("me", "s:cret")
    assert "cret" not in repr(proxy)
    for wrong in ("http://me:s3cret@proxy:x", "ftp://me:s3cret@proxy", "http://me:s3cret@:1"):
        with pytest.raises(UsageError) as raised:
            parse_proxy(wrong, source="option")
        assert "s3cret" not in "\n".join(raised.value.lines())


ENVIRON = {"HTTPS_PROXY": "http://p:1", "HTTP_PROXY": "http://p:2", "ALL_PROXY": "socks5://p:3"}


@pytest.mark.parametrize(
    ("option", "environ", "scheme", "port"),
    [
        ("env", ENVIRON, "https", 1),
        ("env", ENVIRON, "http", 2),
        ("env", {"ALL_PROXY": "socks5://p:3"}, "https", 3),
        ("env", {"https_proxy": "http://p:4", **ENVIRON}, "https", 4),
        ("http://p:5", ENVIRON, "https", 5),
        ("none", ENVIRON, "https", None),
        ("env", {}, "https", None),
        ("env", {"HTTP_PROXY": "http://p:2", "REQUEST_METHOD": "GET"}, "http", None),
    ],
)
def test_the_option_and_then_the_environment_decide(
    option: str, environ: dict[str, str], scheme: str, port: int | None
) -> None:
    proxy, _ = choose_proxy(option, target(scheme=scheme), environ)
    assert (proxy.port if proxy else None) == port


@pytest.mark.parametrize(
    ("no_proxy", "host", "bypassed"),
    [
        ("*", "api.example.com", True),
        ("example.com", "api.example.com", True),
        (".example.com", "api.example.com", True),
        ("*.example.com", "api.example.com", True),
        ("EXAMPLE.com", "api.example.com", True),
        ("ample.com", "api.example.com", False),
        ("other.org, api.example.com", "api.example.com", True),
        ("api.example.com:443", "api.example.com", True),
        ("api.example.com:8443", "api.example.com", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "api.example.com", False),
        ("::1", "::1", True),
        ("[::1]:443", "::1", True),
        ("", "api.example.com", False),
        (",", "api.example.com", False),
    ],
)
def test_no_proxy_exempts_hosts(no_proxy: str, host: str, bypassed: bool) -> None:
    proxy, why = choose_proxy(
        "env", target(host), {"HTTPS_PROXY": "http://p", "NO_PROXY": no_proxy}
    )
    assert (proxy is None) == bypassed
    assert (why is not None) == bypassed


def test_no_proxy_does_not_touch_a_proxy_that_was_asked_for() -> None:
    proxy, why = choose_proxy("http://p:5", target(), {"NO_PROXY": "*"})
    assert proxy is not None and why is None
