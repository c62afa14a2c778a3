"""qlog of a real trace over HTTP/3 and of one over TCP; field names as in the drafts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from promptpath.export.qlog import _wall_clock
from tests.cli.running import promptpath
from tests.e2e.reference import reference_server
from tests.peers.certs import Certificates

PACKETS = {"initial", "handshake", "0RTT", "1RTT", "retry", "version_negotiation", "unknown"}
SECRET = "hunter2-not-to-be-seen"


def names(events: list[dict[str, Any]]) -> set[str]:
    return {event["name"] for event in events}


def check_events(events: list[dict[str, Any]]) -> None:
    """Each event's structure; time goes up."""
    times = [event["time"] for event in events]
    assert times == sorted(times)
    for event in events:
        assert isinstance(event["data"], dict)
        if event["name"].startswith("quic:"):
            assert event["name"] in {
                f"quic:packet_{what}" for what in ("sent", "received", "lost", "dropped")
            }
            assert event["data"]["header"]["packet_type"] in PACKETS
            assert all(set(frame) == {"frame_type"} for frame in event["data"].get("frames", []))


def check_old(file: dict[str, Any]) -> None:
    """What qvis looks at."""
    assert (file["qlog_version"], file["qlog_format"]) == ("0.3", "JSON")
    assert len(file["traces"]) == 2
    for trace in file["traces"]:
        assert trace["common_fields"]["time_format"] == "relative"
        found = names(trace["events"])
        assert {"transport:packet_sent", "transport:packet_received"} <= found
        assert not any(name.startswith("quic:") for name in found)
        times = [event["time"] for event in trace["events"]]
        assert times == sorted(times)


@pytest.mark.parametrize(
    ("name", "version", "says"), [("x.qlog", "0.2", "1 or 0.3"), ("x.sqlog", "0.3", ".qlog")]
)
def test_another_version_is_wrong_usage(name: str, version: str, says: str, tmp_path: Path) -> None:
    out = str(tmp_path / name)
    done = promptpath("trace", "https://h/", "-o", out, "--qlog-version", version)
    assert done.code == 2 and says in done.err and not (tmp_path / name).exists()


def test_a_trace_over_quic_and_over_tcp_and_a_saved_one(
    certs: Certificates, tmp_path: Path
) -> None:
    saved, contained, sequence = (tmp_path / f"t.{end}" for end in ("json", "qlog", "sqlog"))
    tcp = tmp_path / "tcp.qlog"
    ask = ["--cacert", str(certs.ca), "--proxy", "none", "--max-tokens", "3", "--prompt", SECRET]
    with reference_server(tmp_path, tls=certs.good) as server:
        url = f"https://localhost:{server.port}/v1/chat/completions"
        outputs = ["-o", str(saved), "-o", str(contained)]
        done = promptpath("trace", url, *ask, "--http", "3", "--repeat", "2", *outputs)
        assert done.code == 0, done.err
        key = ["-H", f"authorization: Bearer {SECRET}"]
        assert promptpath("trace", url, *ask, *key, "--http", "2", "-o", str(tcp)).code == 0
    assert promptpath("explain", str(saved), "-o", str(sequence)).code == 0

    old = tmp_path / "old.qlog"
    options = ["-o", str(old), "--qlog-version", "0.3"]
    assert promptpath("explain", str(saved), *options).code == 0
    check_old(json.loads(old.read_text()))
    assert SECRET not in old.read_text()

    file = json.loads(contained.read_text())
    assert file["file_schema"] == "urn:ietf:params:qlog:file:contained"
    assert file["serialization_format"] == "application/qlog+json" and len(file["traces"]) == 2
    for trace in file["traces"]:
        assert trace["vantage_point"]["type"] == "client"
        assert "urn:ietf:params:qlog:events:quic-12" in trace["event_schemas"]
        assert trace["common_fields"]["reference_time"]["clock_type"] == "monotonic"
        check_events(trace["events"])
        assert {"quic:packet_sent", "quic:packet_received"} <= names(trace["events"])
        assert {"promptpath:span", "promptpath:stream_event"} <= names(trace["events"])

    texts = sequence.read_bytes().split(b"\x1e")
    assert texts[0] == b"" and all(text.endswith(b"\n") for text in texts[1:])
    head, *events = [json.loads(text) for text in texts[1:]]
    assert head["file_schema"] == "urn:ietf:params:qlog:file:sequential"
    assert head["serialization_format"] == "application/qlog+json-seq"
    assert {event["group_id"] for event in events} == {"run 0", "run 1"}
    assert len(events) == sum(len(trace["events"]) for trace in file["traces"])

    (trace,) = json.loads(tcp.read_text())["traces"]
    check_events(trace["events"])
    assert names(trace["events"]) == {
        "promptpath:span",
        "promptpath:mark",
        "promptpath:stream_event",
    }
    for path in (contained, sequence, tcp):
        assert SECRET.encode() not in path.read_bytes()


def test_an_instant_that_no_calendar_has_is_left_out() -> None:
    assert _wall_clock(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"
    assert _wall_clock(10**30) is None
