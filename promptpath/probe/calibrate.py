"""The streams of `promptpath calibrate`: each designed so that one kind of box must show itself.

- ramp: events of one prime size at a quick pace. A buffer lets go of its own size, to the byte.
- single: an event, then silence, four times. A timer lets go after its own time; a box that waits
  for the next event does so when that is sent; a buffer keeps all to the end.
- sweep: comments of growing size before the first event. What keeps only the beginning of a
  response lets the event through from its own size on.
- variants: one varied stream under other headers, another content type, compression or HTTP
  version. What passes there and not elsewhere names the rule.

A reference server asks boxes to stand aside (X-Accel-Buffering, no-transform); here all streams
but some variants leave that out, to see the boxes as they treat others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from promptpath.model.plan import HttpChoice, Plan
from promptpath.model.units import NS_PER_MS, NS_PER_S
from promptpath.probe.active import CALIBRATE, StreamTest, ask_for

Knobs = Mapping[str, str | int | float]

RAMP_BYTES = 997
"""A prime: no multiple of it ends where a buffer of 2^n bytes does, so that its cut shows."""
RAMP_EVENTS = 600
"""598 kB: nine times the largest buffer measured (64 KiB)."""
RAMP_GAP_MS = 4
SINGLE_BYTES = 211
SINGLE_EVENTS = 4
SINGLE_GAP_MS = 2_000
"""Above the longest flush timer measured or reported (1,000 ms; 1.1 s in an antivirus)."""
SWEEP_BYTES = (0, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536)
SWEEP_GAP_MS = 1_000
"""From the event whose way is watched to the next one."""
LONGEST_NS = 30 * NS_PER_S
"""For one stream: the longest, `single`, takes 8 s."""
COMPRESSED = "gzip, deflate"

_PLAIN: Knobs = {"no_buffering_header": 0, "no_transform_header": 0}
"""As most servers send a stream."""
_VARIED: Knobs = {"events": 48, "seed": 7}

VARIANTS: tuple[tuple[str, Knobs, str], ...] = (
    ("plain", {**_VARIED, **_PLAIN}, "identity"),
    ("X-Accel-Buffering: no", {**_VARIED, "no_transform_header": 0}, "identity"),
    ("Cache-Control: no-transform", {**_VARIED, "no_buffering_header": 0}, "identity"),
    ("both headers", _VARIED, "identity"),
    ("compression asked for", {**_VARIED, **_PLAIN}, COMPRESSED),
    ("compression, both headers", _VARIED, COMPRESSED),
    ("application/x-ndjson", {**_VARIED, **_PLAIN, "format": "ndjson"}, "identity"),
    ("text/plain", {**_VARIED, **_PLAIN, "content_type": "text/plain"}, "identity"),
)
"""Name, knobs and Accept-Encoding."""
HTTP_1 = "over HTTP/1.1"
"""The variant that speaks HTTP/1.1 where the others may speak HTTP/2."""


def first_pass(plan: Plan) -> list[StreamTest]:
    """All streams that need no result of another one."""
    tests = [ramp(plan), single(plan)]
    tests += [sweep(plan, size) for size in SWEEP_BYTES]
    return [*tests, *variants(plan)]


def variants(plan: Plan, names: Collection[str] | None = None) -> list[StreamTest]:
    """The varied stream in all its variants, or in those named."""
    plan = _limited(plan)
    tests = [
        _test(replace(plan, accept_encoding=encoding), "variant", knobs, name=name)
        for name, knobs, encoding in VARIANTS
    ]
    if plan.target.scheme == "https" and plan.http is HttpChoice.AUTO:
        over_h1 = replace(plan, http=HttpChoice.H1)
        tests.append(_test(over_h1, "variant", {**_VARIED, **_PLAIN}, name=HTTP_1))
    return [test for test in tests if names is None or test.about["name"] in names]


def ramp(plan: Plan) -> StreamTest:
    """Events of one size at one pace."""
    plan = _limited(plan)
    return _test(plan, "ramp", _even(RAMP_EVENTS, RAMP_BYTES, RAMP_GAP_MS))


def single(plan: Plan) -> StreamTest:
    """An event, then silence."""
    plan = _limited(plan)
    return _test(plan, "single", _even(SINGLE_EVENTS, SINGLE_BYTES, SINGLE_GAP_MS))


def sweep(plan: Plan, size: int) -> StreamTest:
    """`size` bytes of comment, then the plan event, then silence."""
    knobs = {**_even(1, SINGLE_BYTES, SWEEP_GAP_MS), "preamble_bytes": size}
    return _test(_limited(plan), "sweep", knobs, preamble_bytes=size)


def next_sweep(plan: Plan, sizes: Sequence[int]) -> list[StreamTest]:
    """More of the sweep, between two sizes that differed."""
    return [sweep(plan, size) for size in sizes]


def _even(events: int, size: int, gap_ms: int) -> dict[str, str | int | float]:
    return {
        "events": events,
        "min_bytes": size,
        "max_bytes": size,
        "min_gap_ms": gap_ms,
        "max_gap_ms": gap_ms,
        **_PLAIN,
    }


def _test(plan: Plan, kind: str, knobs: Knobs, **about: str | int) -> StreamTest:
    known = {"command": "calibrate", "kind": kind, "gap_ns": None, **about}
    if "min_gap_ms" in knobs:
        known["gap_ns"] = round(float(knobs["min_gap_ms"]) * NS_PER_MS)
    return StreamTest(plan=ask_for(plan, CALIBRATE, knobs), about=known)


def _limited(plan: Plan) -> Plan:
    limits = replace(plan.limits, total_ns=LONGEST_NS, first_token_ns=None, idle_ns=None)
    return replace(plan, limits=limits)
