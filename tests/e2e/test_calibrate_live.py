"""`promptpath calibrate` through real proxies; tests/probe/test_calibrate.py has boxes of every
kind."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from promptpath.model.codec import json_schema
from tests.cli.running import Done, promptpath
from tests.e2e.reference import Server, reference_server
from tests.peers.certs import Certificates
from tests.peers.haproxy import haproxy
from tests.peers.nginx import nginx
from tests.peers.scripted import ReadRequest, ScriptedOrigin, Step, response

pytestmark = [pytest.mark.peer, pytest.mark.slow]

AT_ONCE = 3
"""Calibrations at a time: each is twenty streams, and their times must not be each other's."""
GZIP = "gzip on; gzip_min_length 1; gzip_proxied any; gzip_types text/event-stream;"
CORK_MS = 200.0
"""HAProxy's MSG_MORE: the kernel sends after 200 ms (tcp(7), TCP_CORK)."""
TIMER_ERROR_MS = 15.0
"""5 ms (measured on an idle machine: 1 to 5), and what the suite's other work adds."""


@dataclass(frozen=True)
class Found:
    """One calibration."""

    done: Done

    @cached_property
    def verdict(self) -> dict[str, Any]:
        document = json.loads(self.done.out)
        jsonschema.validate(document, json_schema())
        verdicts = [each for run in document["runs"] for each in run["report"]["verdicts"]]
        (found,) = [each for each in verdicts if each["question"] == "calibration"]
        verdict: dict[str, Any] = found
        return verdict

    @property
    def estimate(self) -> dict[str, Any]:
        estimate: dict[str, Any] = self.verdict["estimate"]
        return estimate


def calibrate(url: str, *options: str) -> Found:
    return Found(promptpath("calibrate", url, "--json", "--proxy", "none", *options))


@pytest.fixture(scope="module")
def found(
    certs: Certificates, clear: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Found]]:
    """Every calibration of this file."""

    def folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    trust = ("--cacert", str(certs.ca))
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        urls: dict[str, str] = {}
        urls["alone"] = enter(reference_server(folder("alone"), "--engine", "none")).url
        urls["nginx"] = enter(nginx(folder("nginx"), clear.url, extra="", upstream_version=""))
        urls["nginx-tls"] = enter(nginx(folder("tls"), clear.url, extra="", tls=certs.good))
        urls["nginx-gzip"] = enter(nginx(folder("gzip"), clear.url, extra=GZIP))
        urls["haproxy"] = enter(haproxy(folder("haproxy"), clear.url))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            running = {
                name: pool.submit(calibrate, url, *(trust if url.startswith("https") else ()))
                for name, url in urls.items()
            }
            yield {name: future.result() for name, future in running.items()}


def test_nginx_buffers_are_found_to_the_byte_with_what_cures_them(
    found: dict[str, Found],
) -> None:
    measured = found["nginx"]
    assert (measured.verdict["answer"], measured.estimate["buffer_bytes"]) == ("size-buffer", 4096)
    assert measured.estimate["single"] == "to-the-end"
    assert "X-Accel-Buffering: no" in measured.estimate["cured_by"]
    assert "Cache-Control: no-transform" not in measured.estimate["cured_by"]
    assert any("proxy_buffering off" in cure for cure in measured.estimate["cures"])
    assert measured.done.code == 1


def test_nginx_over_tls_holds_http_1_and_not_http_2(found: dict[str, Found]) -> None:
    estimate = found["nginx-tls"].estimate
    passes = {each["name"]: each["passes"] for each in estimate["variants"]}
    assert (passes["plain"], passes["over HTTP/1.1"]) == (True, False)
    assert "over HTTP/1.1" in estimate["held_too"]
    versions = {each["name"]: each["http"] for each in estimate["variants"]}
    assert (versions["plain"], versions["over HTTP/1.1"]) == ("2", "1.1")


def test_a_compressor_is_told_from_a_buffer(found: dict[str, Found]) -> None:
    measured = found["nginx-gzip"]
    assert measured.verdict["answer"] == "compression"
    passes = {each["name"]: each["passes"] for each in measured.estimate["variants"]}
    assert (passes["plain"], passes["compression asked for"]) == (True, False)


def test_haproxys_cork_is_found_below_http_with_its_time(found: dict[str, Found]) -> None:
    measured = found["haproxy"]
    assert measured.verdict["answer"] == "transport-cork"
    off_ms = measured.estimate["timer_ms"] - CORK_MS
    assert -1 <= off_ms <= TIMER_ERROR_MS, off_ms
    assert any("http-no-delay" in cure for cure in measured.estimate["cures"])


def test_without_a_box_every_event_passes(found: dict[str, Found]) -> None:
    measured = found["alone"]
    assert measured.done.code == 0, measured.done.err
    assert (measured.verdict["answer"], measured.verdict["confidence"]) == ("streaming", 1.0)
    assert all(each["passes"] for each in measured.estimate["variants"])
    assert measured.estimate["initial_hold_passed_bytes"] is None


def test_a_saved_calibration_is_judged_and_shown_again(found: dict[str, Found]) -> None:
    measured = found["nginx"]
    again = promptpath("explain", "-", stdin=measured.done.out.encode())
    assert again.code == 1, again.err
    lines = again.out.splitlines()
    assert lines[-1] == measured.estimate["sentence"]
    assert lines[0].startswith("ramp") and "exactly 4096 bytes (http-frame)" in lines[0]
    assert any(line.startswith("ok  X-Accel-Buffering: no") for line in lines)


def test_an_endpoint_without_test_streams_says_what_to_run_instead() -> None:
    missing: list[Step] = [ReadRequest(), response(200, b"<html></html>", "text/html")]
    with ScriptedOrigin(missing) as origin:
        done = promptpath("calibrate", origin.url("/"), "--proxy", "none")
    assert done.code == 3
    assert "promptpath serve --engine none" in done.err
