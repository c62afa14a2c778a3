"""A pasted curl command -> what it would send. Unknown options are refused by name."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from promptpath.cli.curl_tokens import split_command
from promptpath.cli.read_input import MAX_BODY_BYTES, read_input
from promptpath.errors import UsageError

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurlRequest:
    """What a curl command asks for. None: the command does not say."""

    url: str | None = field(default=None, repr=False)
    method: str | None = None
    headers: Headers = field(default=(), repr=False)
    body: bytes | None = field(default=None, repr=False)
    as_query: bool = False
    http: str | None = None
    ipv4: bool = False
    ipv6: bool = False
    insecure: bool = False
    accept_encoding: str | None = None
    proxy: str | None = field(default=None, repr=False)
    cacert: str | None = None
    interface: str | None = None
    resolve: tuple[str, ...] = ()
    timeout: str | None = None
    connect_timeout: str | None = None


_OF_THE_COPY = frozenset({"content-length", "connection", "te"})
"""Headers in a browser's "Copy as cURL" that belong to the browser's own connection."""

_Reader = Callable[[CurlRequest, str], CurlRequest]


def parse_curl(command: str, environ: Mapping[str, str]) -> CurlRequest:
    """What the command would send, with curl's own defaults (a body makes it a POST).

    Raises UsageError for an option this tool does not know, a missing value, no or a second URL.
    """
    words = split_command(command, environ)
    if not words or words[0].rpartition("/")[2] not in ("curl", "curl.exe"):
        raise UsageError("--curl wants a curl command", expected="--curl 'curl https://... -d ...'")
    request = CurlRequest()
    rest = words[1:]
    while rest:
        request = _take(request, rest)
    return _finish(request)


def _take(request: CurlRequest, rest: list[str]) -> CurlRequest:
    """Consume one option (or URL) from the front of `rest`."""
    word = rest.pop(0)
    if word.startswith("--") and len(word) > 2:
        name, has_value, value = word.partition("=")
        if name in _FLAGS and not has_value:
            return _FLAGS[name](request, "")
        if name in _VALUES:
            return _VALUES[name](request, value if has_value else _value(name, rest))
        raise _unknown(name)
    if not word.startswith("-") or word == "-":
        return _url(request, word)
    return _short(request, word, rest)


def _short(request: CurlRequest, word: str, rest: list[str]) -> CurlRequest:
    """-sS, -XPOST, -d body: flags may be joined, the last may carry its value."""
    for index, letter in enumerate(word[1:], start=1):
        name = _SHORT.get(letter)
        if name is None:
            raise _unknown(f"-{letter}")
        if name in _FLAGS:
            request = _FLAGS[name](request, "")
            continue
        return _VALUES[name](request, word[index + 1 :] or _value(f"-{letter}", rest))
    return request


def _value(name: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"curl's {name} wants a value", expected=f"{name} VALUE", where="--curl")
    return rest.pop(0)


def _unknown(name: str) -> UsageError:
    return UsageError(
        f"curl's {name} is not supported",
        where="--curl",
        hint="leave it out, or use this program's own options (promptpath trace --help)",
    )


def _finish(request: CurlRequest) -> CurlRequest:
    if request.url is None:
        raise UsageError("no URL in the curl command", expected="curl https://...", where="--curl")
    if request.as_query and request.body is not None:
        query = quote(request.body.decode("utf-8", "replace"), safe="=&%+")
        joint = "&" if "?" in request.url else "?"
        request = replace(request, url=f"{request.url}{joint}{query}", body=None)
    names = {name.lower() for name, _ in request.headers}
    if request.body is not None and "content-type" not in names:
        request = _add_header(request, "content-type", "application/x-www-form-urlencoded")
    method = request.method or ("GET" if request.body is None else "POST")
    url = request.url or ""
    # curl guesses http:// for a URL without a scheme.
    return replace(request, method=method, url=url if "://" in url else f"http://{url}")


def _url(request: CurlRequest, value: str) -> CurlRequest:
    if request.url is not None:
        raise UsageError("two URLs in the curl command", expected="one", where="--curl")
    return replace(request, url=value)


def _add_header(request: CurlRequest, name: str, value: str) -> CurlRequest:
    return replace(request, headers=(*request.headers, (name.strip().lower(), value.strip())))


def _header(request: CurlRequest, value: str) -> CurlRequest:
    name, colon, content = value.partition(":")
    if value.startswith("@"):
        raise UsageError(
            "curl's -H @FILE is not supported", expected="-H 'Name: value'", where="--curl"
        )
    if name.strip().lower() == "accept-encoding":
        return replace(request, accept_encoding=content.strip() or None)
    if name.strip().lower() in _OF_THE_COPY:
        return request
    # "Name:" removes a header and "Name;" sends an empty one; neither is worth sending here.
    return _add_header(request, name, content) if colon and content.strip() else request


def _add_body(request: CurlRequest, data: bytes, joint: bytes = b"&") -> CurlRequest:
    body = data if request.body is None else request.body + joint + data
    return replace(request, body=body)


def _data(request: CurlRequest, value: str) -> CurlRequest:
    if not value.startswith("@"):
        return _add_body(request, value.encode())
    data = _read(value[1:])  # curl drops line ends and NUL of a file here, not in --data-binary
    return _add_body(request, data.replace(b"\r", b"").replace(b"\n", b"").replace(b"\0", b""))


def _data_raw(request: CurlRequest, value: str) -> CurlRequest:
    return _add_body(request, value.encode())


def _data_binary(request: CurlRequest, value: str) -> CurlRequest:
    return _add_body(request, _read(value[1:]) if value.startswith("@") else value.encode())


def _json(request: CurlRequest, value: str) -> CurlRequest:
    data = _read(value[1:]) if value.startswith("@") else value.encode()
    names = {name for name, _ in request.headers}
    for name in ("content-type", "accept"):
        if name not in names:
            request = _add_header(request, name, "application/json")
    return _add_body(request, data, b"")


def _user(request: CurlRequest, value: str) -> CurlRequest:
    if ":" not in value:
        raise UsageError(
            "curl's -u wants user:password", expected="-u user:password", where="--curl"
        )
    token = base64.b64encode(value.encode()).decode()
    return _add_header(request, "authorization", f"Basic {token}")


def _cookie(request: CurlRequest, value: str) -> CurlRequest:
    if "=" not in value:
        raise UsageError("curl's -b FILE is not supported", expected="-b 'name=value'")
    return _add_header(request, "cookie", value)


def _read(name: str) -> bytes:
    hint = "run it where the file is, or name its whole path"
    return read_input(name, MAX_BODY_BYTES, where="--curl", hint=hint)


def _skip(request: CurlRequest, _value: str) -> CurlRequest:
    return request


_FLAGS: dict[str, _Reader] = {
    "--insecure": lambda request, _: replace(request, insecure=True),
    "--compressed": lambda request, _: replace(request, accept_encoding="gzip, deflate"),
    "--http1.1": lambda request, _: replace(request, http="1.1"),
    "--http2": lambda request, _: replace(request, http="auto"),
    "--http3": lambda request, _: replace(request, http="3"),
    "--http3-only": lambda request, _: replace(request, http="3"),
    "--ipv4": lambda request, _: replace(request, ipv4=True),
    "--ipv6": lambda request, _: replace(request, ipv6=True),
    "--get": lambda request, _: replace(request, as_query=True),
    # These change what curl prints or how it follows and fails: this program has its own ways.
    **dict.fromkeys(
        (
            "--location",
            "--silent",
            "--show-error",
            "--include",
            "--verbose",
            "--fail",
            "--fail-with-body",
            "--no-buffer",
            "--no-progress-meter",
            "--progress-bar",
            "--globoff",
            "--tcp-nodelay",
        ),
        _skip,
    ),
}
_VALUES: dict[str, _Reader] = {
    "--url": _url,
    "--request": lambda request, value: replace(request, method=value.upper()),
    "--header": _header,
    "--data": _data,
    "--data-ascii": _data,
    "--data-raw": _data_raw,
    "--data-binary": _data_binary,
    "--json": _json,
    "--user": _user,
    "--user-agent": lambda request, value: _add_header(request, "user-agent", value),
    "--referer": lambda request, value: _add_header(request, "referer", value),
    "--oauth2-bearer": lambda request, value: _add_header(
        request, "authorization", f"Bearer {value}"
    ),
    "--cookie": _cookie,
    "--proxy": lambda request, value: replace(request, proxy=value),
    "--cacert": lambda request, value: replace(request, cacert=value),
    "--interface": lambda request, value: replace(request, interface=value),
    "--resolve": lambda request, value: replace(request, resolve=(*request.resolve, value)),
    "--max-time": lambda request, value: replace(request, timeout=value),
    "--connect-timeout": lambda request, value: replace(request, connect_timeout=value),
    "--output": _skip,
    "--write-out": _skip,
}
_SHORT = {
    "X": "--request",
    "H": "--header",
    "d": "--data",
    "u": "--user",
    "A": "--user-agent",
    "e": "--referer",
    "b": "--cookie",
    "x": "--proxy",
    "m": "--max-time",
    "o": "--output",
    "w": "--write-out",
    "k": "--insecure",
    "4": "--ipv4",
    "6": "--ipv6",
    "G": "--get",
    "L": "--location",
    "s": "--silent",
    "S": "--show-error",
    "i": "--include",
    "v": "--verbose",
    "f": "--fail",
    "N": "--no-buffer",
    "g": "--globoff",
    "#": "--progress-bar",
}
