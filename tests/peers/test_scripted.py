"""The scripted origins do what they are told, as independent clients see it."""

from __future__ import annotations

import socket
import ssl
import subprocess

import httpx
import pytest

from tests.peers.certs import Certificates
from tests.peers.require import require
from tests.peers.scripted import (
    CUT,
    HOLD,
    LAST_CHUNK,
    RST,
    Endless,
    ReadRequest,
    ScriptedOrigin,
    Step,
    Wait,
    chunk,
    head,
    sse_stream,
)
from tests.peers.scripted_h2 import (
    AwaitRequest,
    Data,
    ErrorCodes,
    Goaway,
    H2Step,
    Headers,
    Informational,
    Reset,
    ScriptedH2Origin,
    SettingCodes,
    Trailers,
)
from tests.peers.threaded import Connection


def client(certs: Certificates, *, http2: bool = False) -> httpx.Client:
    context = ssl.create_default_context(cafile=certs.ca)
    return httpx.Client(verify=context, http2=http2, trust_env=False, timeout=5)


def test_good_stream_arrives_whole(certs: Certificates) -> None:
    with ScriptedOrigin(sse_stream([b"data: a\n\n", b"data: b\n\n"])) as origin:
        with client(certs) as http:
            body = http.post(origin.url("/v1"), content=b"hello").text
        assert body == "data: a\n\ndata: b\n\n"
        assert origin.requests[0].endswith(b"hello")


def test_tls_origin_is_trusted_by_its_ca(certs: Certificates) -> None:
    with ScriptedOrigin(sse_stream([b"data: a\n\n"]), tls=certs.good.server_context()) as origin:
        with client(certs) as http:
            assert http.get(origin.url()).status_code == 200


@pytest.mark.parametrize("leaf", ["expired", "not_yet_valid", "wrong_host", "self_signed"])
def test_bad_leaf_is_refused(certs: Certificates, leaf: str) -> None:
    context = getattr(certs, leaf).server_context()
    with ScriptedOrigin(sse_stream([]), tls=context) as origin, client(certs) as http:
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            http.get(origin.url(host="localhost"))


def test_rst_reaches_the_client_as_reset() -> None:
    script: list[Step] = [ReadRequest(), head(), chunk(b"data: a"), Wait(20), RST]
    with ScriptedOrigin(script) as origin:
        with socket.create_connection((origin.host, origin.port)) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                while sock.recv(65536):
                    pass


def test_cut_is_a_tls_end_without_close_notify(certs: Certificates) -> None:
    script: list[Step] = [ReadRequest(), head(), chunk(b"data: a"), CUT]
    context = ssl.create_default_context(cafile=certs.ca)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    with ScriptedOrigin(script, tls=certs.good.server_context()) as origin:
        with socket.create_connection((origin.host, origin.port)) as raw:
            with context.wrap_socket(
                raw, server_hostname="localhost", suppress_ragged_eofs=False
            ) as sock:
                sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
                with pytest.raises(ssl.SSLEOFError):
                    while sock.recv(65536):
                        pass


def test_endless_stream_ends_with_the_client() -> None:
    with ScriptedOrigin([ReadRequest(), head(), Endless(chunk(b"data: x\n\n"))]) as origin:
        with socket.create_connection((origin.host, origin.port)) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert len(sock.recv(65536)) > 0


def test_silent_connection_is_woken_at_the_end() -> None:
    with ScriptedOrigin([HOLD]) as origin:
        socket.create_connection((origin.host, origin.port)).close()


def test_each_connection_has_its_script(certs: Certificates) -> None:
    first: list[Step] = [ReadRequest(), head(503, chunked=False), b"busy"]
    second: list[Step] = [ReadRequest(), head(), LAST_CHUNK]
    with ScriptedOrigin(first, second) as origin:
        statuses = []
        for _ in range(3):
            with client(certs) as http:
                statuses.append(http.get(origin.url()).status_code)
        assert statuses == [503, 200, 200]


def test_bug_in_a_script_fails_the_test() -> None:
    def broken(connection: Connection) -> None:
        raise RuntimeError("bug in the script")

    with pytest.raises(RuntimeError, match="bug in the script"):
        with ScriptedOrigin(broken) as origin:
            with socket.create_connection((origin.host, origin.port)) as sock:
                assert sock.recv(1) == b""


def test_h2_response_with_interim_head_and_trailers(certs: Certificates) -> None:
    script: list[H2Step] = [
        AwaitRequest(),
        Informational(103),
        Headers(200),
        Data(b"data: a\n\n"),
        Trailers((("x-end", "1"),)),
    ]
    context = certs.good.server_context(alpn=("h2",))
    with ScriptedH2Origin(script, tls=context) as origin, client(certs, http2=True) as http:
        answer = http.post(origin.url(host="localhost"), content=b"{}")
        assert (answer.http_version, answer.text) == ("HTTP/2", "data: a\n\n")
        assert bytes(origin.requests[0].body) == b"{}"


def test_h2_reset_carries_its_code(certs: Certificates) -> None:
    script: list[H2Step] = [
        AwaitRequest(),
        Headers(),
        Data(b"x"),
        Reset(ErrorCodes.ENHANCE_YOUR_CALM),
    ]
    context = certs.good.server_context(alpn=("h2",))
    with ScriptedH2Origin(script, tls=context) as origin, client(certs, http2=True) as http:
        with pytest.raises(httpx.RemoteProtocolError, match="11"):
            http.get(origin.url(host="localhost"))


def test_h2_stream_may_end_well_after_goaway(certs: Certificates) -> None:
    script: list[H2Step] = [AwaitRequest(), Headers(), Data(b"a"), Goaway(), Data(b"b", end=True)]
    with ScriptedH2Origin(script, tls=certs.good.server_context(alpn=("h2",))) as origin:
        # httpx gives up at any GOAWAY; curl follows RFC 9113 section 6.8.
        line = [require("curl"), "-sS", "--noproxy", "*", "--cacert", str(certs.ca)]
        done = subprocess.run([*line, origin.url(host="localhost")], capture_output=True, timeout=9)
        assert done.stdout == b"ab", done.stderr


def test_h2_tiny_window_is_respected_and_refilled(certs: Certificates) -> None:
    script: list[H2Step] = [AwaitRequest(), Headers(), Data(b"done", end=True)]
    tiny = {SettingCodes.INITIAL_WINDOW_SIZE: 100}
    context = certs.good.server_context(alpn=("h2",))
    with ScriptedH2Origin(script, tls=context, initial_settings=tiny) as origin:
        with client(certs, http2=True) as http:
            assert http.post(origin.url(host="localhost"), content=b"y" * 1000).text == "done"
        assert len(origin.requests[0].body) == 1000
