from __future__ import annotations

import sys

import pytest

from promptpath.probe import kernel_stamps, kernel_support, tcp_info
from promptpath.probe.kernel_support import KernelSupport

linux = pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps are Linux's")


@pytest.fixture
def unknown() -> None:
    """As in a process that has not looked yet."""
    kernel_support.kernel_support.cache_clear()


@linux
def test_this_kernel_can_do_all_of_it(unknown: None) -> None:
    assert kernel_support.kernel_support() == KernelSupport(
        rx_stamps=True, tx_stamps=True, segment_counter=True, queue_memory=True
    )


def test_a_system_without_stamps_and_counters_says_so(
    unknown: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_stamps, "LINUX", False)
    monkeypatch.setattr(tcp_info, "LINUX", False)
    assert kernel_support.kernel_support() == kernel_support.NO_SUPPORT
    kernel_support.kernel_support.cache_clear()


def test_the_keeper_is_opened_once() -> None:
    kernel_support.start_keeper()
    keeper = kernel_support._keeper
    kernel_support.start_keeper()
    assert keeper is not None and kernel_support._keeper is keeper
