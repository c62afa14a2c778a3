from __future__ import annotations

import sys

import pytest

from promptpath.model.enums import Clock
from promptpath.probe import capability, tcp_info
from promptpath.probe.capability import Ability, Examination, examine
from promptpath.probe.clock import RunClock
from promptpath.probe.kernel_support import NO_SUPPORT
from tests.probe.loopback import run


def by_name(found: Examination) -> dict[str, Ability]:
    return {ability.name: ability for ability in found.abilities}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps are Linux's")
def test_on_this_kernel_stamps_work_and_the_delay_of_reading_is_known() -> None:
    found = run(examine)
    abilities = by_name(found)
    assert abilities["kernel receive stamps"].works
    assert abilities["kernel send stamps"].works
    assert abilities["certified exactness"].works
    assert abilities["certificates after loss"].works
    assert abilities["TCP_INFO"].detail.endswith(f"of {len(tcp_info.FIELDS)} fields")
    assert found.clock is Clock.KERNEL and found.error_ns
    assert found.read_delay is not None
    assert 0 < found.read_delay.median_ns <= found.read_delay.p99_ns
    assert 0 < found.read_delay.certified <= found.read_delay.segments


def test_without_kernel_support_each_ability_says_what_is_worse() -> None:
    async def scenario() -> Examination:
        return await examine(RunClock.start(support=NO_SUPPORT))

    found = run(scenario)
    abilities = by_name(found)
    assert found.clock is Clock.USER
    assert (found.error_ns, found.read_delay) == (None, None)
    for name in ("kernel receive stamps", "kernel send stamps", "certified exactness"):
        assert not abilities[name].works
    assert "late" in abilities["kernel receive stamps"].detail


def test_a_missing_route_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    unroutable = {"IPv4": (2, "255.255.255.255")}
    monkeypatch.setattr(capability, "_NO_ROUTE_NEEDED", unroutable)
    found = {ability.name: ability for ability in capability._network_abilities()}
    assert not found["IPv4 route"].works
