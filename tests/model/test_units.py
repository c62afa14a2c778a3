"""Units: what a person types, what a person reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.errors import UsageError
from promptpath.model.units import (
    format_bytes,
    format_duration,
    format_ms,
    opt_ms,
    parse_duration_ns,
    parse_size_bytes,
    to_ms,
)


@pytest.mark.parametrize(
    ("typed", "ns"),
    [
        ("30", 30_000_000_000),
        ("30s", 30_000_000_000),
        ("250ms", 250_000_000),
        (" 1.5 m ", 90_000_000_000),
        ("2h", 7_200_000_000_000),
        ("5us", 5_000),
        ("7ns", 7),
    ],
)
def test_a_duration_is_read(typed: str, ns: int) -> None:
    assert parse_duration_ns(typed) == ns


@pytest.mark.parametrize("typed", ["", "0", "-1s", "1 day", "ms", "1e3", "0.1ns", "nan", "1s1s"])
def test_what_is_no_duration_is_refused_with_a_hint(typed: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration_ns(typed)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("typed", "size"),
    [("64", 64), ("8k", 8_000), ("8KiB", 8_192), ("16MiB", 16_777_216), ("1.5 gb", 1_500_000_000)],
)
def test_a_size_is_read(typed: str, size: int) -> None:
    assert parse_size_bytes(typed) == size


@pytest.mark.parametrize("typed", ["", "0", "-5", "5 parsecs", "0.2"])
def test_what_is_no_size_is_refused(typed: str) -> None:
    with pytest.raises(UsageError):
        parse_size_bytes(typed)


@pytest.mark.parametrize(
    ("ns", "read"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (412_000, "412 us"),
        (1_234_000, "1.23 ms"),
        (12_340_000, "12.3 ms"),
        (412_000_000, "412 ms"),
        (1_840_000_000, "1.84 s"),
        (12_300_000_000, "12.3 s"),
        (125_000_000_000, "2m 05s"),
        (-1_840_000_000, "-1.84 s"),
    ],
)
def test_a_duration_is_shown_with_three_figures(ns: int, read: str) -> None:
    assert format_duration(ns) == read


@given(st.integers(0, 10**15))
def test_a_shown_duration_never_carries_four_figures_below_a_thousand(ns: int) -> None:
    number = format_duration(ns).split(" ")[0]
    if number.endswith("m"):
        return
    assert len(number.replace(".", "")) <= 4


def test_ms_are_rounded_to_the_microsecond() -> None:
    assert to_ms(1_234_567) == 1.235
    assert opt_ms(None) is None
    assert format_ms(1.235) == "1.24 ms"


@pytest.mark.parametrize(
    ("size", "read"),
    [(0, "0 B"), (1023, "1023 B"), (4200, "4.1 KiB"), (2**21, "2.0 MiB"), (2**43, "8192.0 GiB")],
)
def test_a_size_is_shown(size: int, read: str) -> None:
    assert format_bytes(size) == read
