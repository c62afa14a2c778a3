"""Runs `promptpath trace` as its users do and holds every document to what must always be true of
hops: they are disjoint, in trip order, and with what is unexplained they add up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import jsonschema
import pytest

from promptpath.model.codec import json_schema
from tests.cli.running import promptpath

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
MODEL = "promptpath-paced"
TOKENS = 6
"""Asked for in every run, so that a test takes milliseconds."""
ANSWER = ["wait", "generation", "finish"]
"""The hops of a streamed answer."""
CLAIMS_TOO_MUCH = "PP605"
"""The finding that the reported stages exceed the observed hop."""
_PLAIN: Mapping[str, str] = {}
_ROUNDING_MS = 0.002
"""The report's ms have three digits: a sum of two rounded numbers is off by that much."""


@dataclass(frozen=True, slots=True)
class Trip:
    """One run of a document."""

    trace: dict[str, Any]
    report: dict[str, Any]

    def facts(self, key: str) -> list[Any]:
        """All values of a fact, in order."""
        return [fact["value"] for fact in self.trace["facts"] if fact["key"] == key]

    def fact(self, key: str) -> Any:
        """A fact's only or first value; the test fails without one."""
        found = self.facts(key)
        assert found, f"no fact {key}"
        return found[0]

    def spans(self, name: str) -> list[dict[str, Any]]:
        """The spans of this name."""
        return [span for span in self.trace["spans"] if span["name"] == name]

    def marks(self, name: str) -> list[dict[str, Any]]:
        """The marks of this name."""
        return [mark for mark in self.trace["marks"] if mark["name"] == name]

    @property
    def headers(self) -> dict[str, str]:
        """Those of the last response."""
        return dict(self.facts("http.headers")[-1])

    @property
    def hops(self) -> list[dict[str, Any]]:
        """The top-level hops."""
        return [hop for hop in self.report["hops"] if hop["within"] is None]

    @property
    def stages(self) -> list[str]:
        """Their stages, in order."""
        return [hop["stage"] for hop in self.hops]

    @property
    def inside(self) -> set[str]:
        """The stages within a hop."""
        return {hop["stage"] for hop in self.report["hops"] if hop["within"] is not None}

    def hop_ms(self, stage: str) -> float:
        """How long the only hop of that stage took."""
        (found,) = [hop["duration_ms"] for hop in self.hops if hop["stage"] == stage]
        return float(found)

    @property
    def codes(self) -> set[str]:
        """The codes of the findings."""
        return {finding["code"] for finding in self.report["findings"]}

    @property
    def texts(self) -> list[dict[str, Any]]:
        """The events with visible text."""
        return [event for event in self.trace["events"] if event["kind"] == "text"]

    def delays_ms(self) -> list[float]:
        """From the server's `sent_ns` to our stamp, an event; both ends read one machine's
        CLOCK_MONOTONIC."""
        t0_ns = self.trace["clock"]["epoch_monotonic_ns"]
        timed = [event for event in self.texts if event["server_ns"] is not None]
        assert timed, "no event carries the server's time"
        return [(t0_ns + event["at_ns"] - event["server_ns"]) / 1e6 for event in timed]


def trips(*arguments: str, code: int = 0, environ: Mapping[str, str] = _PLAIN) -> list[Trip]:
    """Trace, and give every run, each checked. `code` is the exit code that must come."""
    done = promptpath("trace", *arguments, "--json", stdin=b"", **environ)
    assert done.code == code, f"exit {done.code}: {done.err}{_shortly(done.out)}"
    document = json.loads(done.out)
    _validator().validate(document)
    found = [Trip(run["trace"], run["report"]) for run in document["runs"]]
    for trip in found:
        check_hops(trip)
    return found


def trip(*arguments: str, code: int = 0, environ: Mapping[str, str] = _PLAIN) -> Trip:
    """`trips` of a single run."""
    (found,) = trips(*arguments, code=code, environ=environ)
    return found


def ask(
    url: str, *options: str, code: int = 0, proxy: str = "none", environ: Mapping[str, str] = _PLAIN
) -> Trip:
    """One prompt with few tokens, through no proxy unless told."""
    return trip(*prompt(url, *options, proxy=proxy), code=code, environ=environ)


def prompt(url: str, *options: str, proxy: str = "none") -> list[str]:
    """The arguments of `ask`."""
    common = ["--model", MODEL, "--max-tokens", str(TOKENS), "--timeout", "20s"]
    return [url, *common, "--proxy", proxy, *options]


def check_hops(trip: Trip) -> None:
    """Disjoint, in order, adding up; the parts lie inside what they are part of."""
    hops, latency = trip.hops, trip.report["latency"]
    assert all(hop["duration_ms"] >= 0 and hop["error_ms"] >= 0 for hop in hops)
    for before, after in pairwise(hops):
        end_ms = before["start_ms"] + before["duration_ms"]
        assert after["start_ms"] >= end_ms - _ROUNDING_MS, (before, after)
    if hops:
        total_ms = sum(hop["duration_ms"] for hop in hops) + latency["unexplained_ms"]
        assert total_ms == pytest.approx(latency["e2e_ms"], abs=_ROUNDING_MS * len(hops))
        assert latency["unexplained_ms"] >= 0
    for stage in ("wait", "generation"):
        _check_parts(trip, stage)


def check_answer(trip: Trip, *before: str) -> None:
    """The hops are exactly `before` and those of a whole streamed answer of TOKENS tokens."""
    assert trip.stages == [*before, *ANSWER]
    assert (trip.fact("http.status"), trip.report["end_state"]) == (200, "complete")
    assert trip.report["cadence"]["output_tokens"] == TOKENS
    assert trip.facts("failure") == [] == trip.facts("limit")
    names = [span["outcome"] for span in trip.trace["spans"] if span["parent"] is None]
    assert set(names) == {"ok"}


def _check_parts(trip: Trip, stage: str) -> None:
    whole = [hop for hop in trip.hops if hop["stage"] == stage]
    parts = [hop for hop in trip.report["hops"] if hop["within"] == stage]
    if parts:
        room_ms = whole[-1]["duration_ms"] + whole[-1]["error_ms"] + _ROUNDING_MS * len(parts)
        if stage == "generation" and (gaps := trip.report["cadence"]["inter_event_ms"]):
            room_ms += gaps["p50"]  # its first event may come late by as much
        fits = sum(hop["duration_ms"] for hop in parts) <= room_ms
        # A server that claims more time than was seen is contradicted in words.
        assert fits or CLAIMS_TOO_MUCH in trip.codes, (whole, parts)


def _shortly(out: str) -> str:
    try:
        runs = json.loads(out)["runs"]
    except ValueError:
        return out[-2000:]
    keys = ("failure", "limit", "http.status")
    return "".join(
        str([fact for fact in run["trace"]["facts"] if fact["key"] in keys])
        + str([(f["code"], f["because"]) for f in run["report"]["findings"]])
        for run in runs
    )


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())
