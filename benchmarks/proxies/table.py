"""The matrix as Markdown, and its place in docs/proxies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.proxies.cell import Cell

DOCS = Path(__file__).parents[2] / "docs" / "proxies"
BEGIN = "<!-- begin: python -m benchmarks.proxies --docs -->"
END = "<!-- end -->"
PAGES = {
    "nginx": "nginx",
    "HAProxy": "haproxy",
    "Apache httpd": "apache",
    "Squid": "squid",
    "Varnish": "varnish",
    "Caddy": "caddy",
    "lighttpd": "lighttpd",
    "Envoy": "envoy",
    "Traefik": "traefik",
    "Traffic Server": "trafficserver",
    "node http-proxy": "node",
}
"""Product -> its page, without .md."""
_COLUMNS = ("configuration", "protocol", "a tenth held", "by stamps", "passive", "calibrate")


def table(cells: Iterable[Cell], *, products: bool = True) -> str:
    """One row a cell; with `products` each row begins with product and version."""
    columns = (("product",) if products else ()) + _COLUMNS
    lines = [_line(columns), _line(["---"] * len(columns))]
    for cell in cells:
        first = [f"[{cell.product}]({PAGES[cell.product]}.md) {cell.version}"] if products else []
        lines.append(_line([*first, *_cells(cell)]))
    return "\n".join(lines)


def _cells(cell: Cell) -> list[str]:
    held = _duration(cell.held_p90_ms)
    answers = (("stamped", cell.stamped), ("passive", cell.passive))
    judged = [f"{said} (!)" if name in cell.disagreements else said for name, said in answers]
    held = f"**{held}**" if cell.held else held
    return [cell.configuration, cell.protocol, held, *judged, cell.active or ""]


def _duration(ms: float) -> str:
    return f"{ms:.0f} ms" if ms >= 10 else f"{ms:.1f} ms"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def write_docs(cells: Sequence[Cell]) -> None:
    """Put the matrix into docs/proxies/README.md and each product's rows into its page, between the
    marks; a page without both is an error (ValueError)."""
    _replace(DOCS / "README.md", table(cells))
    for product, page in PAGES.items():
        own = [cell for cell in cells if cell.product == product]
        if own:
            caption = f"Version {own[0].version}:\n\n"
            _replace(DOCS / f"{page}.md", caption + table(own, products=False))


def _replace(page: Path, text: str) -> None:
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no place for a table: {BEGIN} ... {END}")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
