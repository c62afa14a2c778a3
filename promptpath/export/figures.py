"""Numbers as words and as cells of a table, the same in the terminal and in Markdown."""

from __future__ import annotations

from promptpath.model.report import Spread, Summary
from promptpath.model.units import format_ms

TITLES = {
    "dns_ms": "name resolution",
    "proxy_ms": "proxy",
    "tcp_ms": "TCP connect",
    "tls_ms": "TLS handshake",
    "quic_ms": "QUIC handshake",
    "request_ms": "request upload",
    "wait_ms": "wait",
    "generation_ms": "generation",
    "finish_ms": "finish",
    "headers_ms": "response head",
    "ttfb_ms": "first byte",
    "ttft_ms": "first token",
    "ttft_request_ms": "... after the request",
    "e2e_ms": "whole trip",
    "tpot_ms": "time per token",
    "tokens_per_s": "tokens per second",
    "itl_p99_ms": "inter-token time p99",
}
"""Titles of the metrics; one that has none goes by its own name."""


def metric_names(summary: Summary) -> list[str]:
    """The metrics of all kinds, each once, in order of first appearance."""
    return list(dict.fromkeys(name for kind in summary.metrics.values() for name in kind))


def shown(metric: str, value: float) -> str:
    """A value of this metric for a person."""
    return format_ms(value) if metric.endswith("_ms") else f"{value:.4g}"


def cell(metric: str, spread: Spread | None, plus_minus: str) -> str:
    """Median and deviation, then the extremes: "12.3 ms +- 0.4 ms (11.9 ms .. 14.0 ms)"."""
    if spread is None:
        return "-"
    text = f"{shown(metric, spread.median)} {plus_minus} {shown(metric, spread.mad)}"
    if spread.count > 2:
        text += f" ({shown(metric, spread.min)} .. {shown(metric, spread.max)})"
    return text


def share(part_ms: float, whole_ms: float) -> str:
    """Percent of the whole, rounded: "61%", "<1%"; blank when there is no whole."""
    if whole_ms <= 0:
        return ""
    percent = 100 * part_ms / whole_ms
    return "<1%" if 0 < percent < 1 else f"{percent:.0f}%"
