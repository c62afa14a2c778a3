"""What products do to a stream: truth by the server's stamps, the passive verdict, the active one.

    python -m benchmarks.proxies [--only nginx,caddy] [--no-active] [--docs]

Each product x configuration x protocol stands alone before the reference server's test streams.
Results go to benchmarks/results/proxies.json, where products that are not run again keep theirs.
`--docs` writes the tables of docs/proxies from that file. Exit status 1 when a verdict says "held"
where nothing was or the reverse, or when a run broke.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.harness import RESULTS, machine
from benchmarks.proxies.cell import Cell, from_json, run_cell
from benchmarks.proxies.configurations import CONFIGURATIONS, PRODUCTS
from benchmarks.proxies.table import table, write_docs
from benchmarks.proxies.versions import version
from benchmarks.tool import ToolFailedError
from tests.e2e.reference import reference_server
from tests.peers.certs import Certificates, make_certificates
from tests.peers.process import PeerFailedError

FILE = RESULTS / "proxies.json"


def run_products(products: Sequence[str], *, active: bool) -> Iterator[Cell]:
    """Every cell of these products, one after another; what breaks is said on stderr."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)  # products that drop root read their files here
        certificates = make_certificates(scratch)
        with reference_server(scratch, "--engine", "none") as server:
            for product in products:
                yield from _run_product(product, server.url, certificates, scratch, active)


def _run_product(
    product: str, upstream: str, certificates: Certificates, scratch: Path, active: bool
) -> Iterator[Cell]:
    try:
        number = version(product)
    except pytest.skip.Exception as missing:
        print(f"{product}: left out: {missing}", file=sys.stderr)
        return
    for configuration in CONFIGURATIONS:
        if configuration.product != product:
            continue
        for protocol in configuration.protocols:
            title = f"{product}, {configuration.name}, {protocol.value}"
            own = Path(tempfile.mkdtemp(dir=scratch))
            own.chmod(0o755)
            try:
                cell = run_cell(
                    configuration,
                    protocol,
                    upstream,
                    certificates,
                    own,
                    version=number,
                    active=active,
                )
            except (ToolFailedError, PeerFailedError) as error:
                print(f"{title}: FAILED: {error}", file=sys.stderr)
                continue
            except pytest.skip.Exception as missing:
                print(f"{title}: left out: {missing}", file=sys.stderr)
                continue
            _tell(title, cell)
            yield cell


def _tell(title: str, cell: Cell) -> None:
    wrong = f"  DISAGREES: {', '.join(cell.disagreements)}" if cell.disagreements else ""
    print(
        f"{title}: held {cell.held_p90_ms:g} ms; by stamps {cell.stamped}; "
        f"passive {cell.passive}; calibrate {cell.active}{wrong}",
        file=sys.stderr,
    )


def _kept() -> list[Cell]:
    if not FILE.exists():
        return []
    return [from_json(each) for each in json.loads(FILE.read_text())["cells"]]


def _save(cells: Sequence[Cell]) -> list[Cell]:
    """Join with what the file has of other products, in the lab's order."""
    again = {cell.product for cell in cells}
    kept = [cell for cell in _kept() if cell.product not in again]
    joined = sorted([*kept, *cells], key=lambda cell: PRODUCTS.index(cell.product))
    RESULTS.mkdir(exist_ok=True)
    document = {
        "benchmark": "proxies",
        "machine": machine(),
        "cells": [cell.as_json() for cell in joined],
    }
    FILE.write_text(json.dumps(document, indent=1) + "\n")
    return joined


def _chosen(only: str | None) -> list[str]:
    if only is None:
        return list(PRODUCTS)
    wanted = [word.strip().lower() for word in only.split(",")]
    chosen = [name for name in PRODUCTS if any(name.lower().startswith(w) for w in wanted if w)]
    if not chosen:
        raise SystemExit(f"no such product: {only}; there are: {', '.join(PRODUCTS)}")
    return chosen


def main(arguments: list[str]) -> int:
    """Run the lab, save, print the matrix."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.proxies", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", help="products by the beginning of their names, comma between")
    parser.add_argument("--no-active", action="store_true", help="leave promptpath calibrate out")
    parser.add_argument("--docs", action="store_true", help="write the tables of docs/proxies")
    parser.add_argument("--no-run", action="store_true", help="take the saved results")
    options = parser.parse_args(arguments)
    products = _chosen(options.only)
    wanted = sum(len(each.protocols) for each in CONFIGURATIONS if each.product in products)
    if options.no_run:
        cells = joined = _kept()
    else:
        cells = list(run_products(products, active=not options.no_active))
        joined = _save(cells)
    print(table(joined))
    if options.docs:
        write_docs(joined)
    wrong = sum(bool(cell.disagreements) for cell in cells)
    print(f"\n{len(cells)} of {wanted} cells run, {wrong} with a wrong verdict")
    for title in surprises(cells):
        print(f"not as it is known: {title}")
    return int(wrong > 0 or len(cells) < wanted)


def surprises(cells: Sequence[Cell]) -> list[str]:
    """Configurations that are known to hold a stream and held none over any protocol, or the
    reverse: a new version does something else, or the lab is wrong."""
    held: dict[tuple[str, str], bool] = {}
    for cell in cells:
        key = (cell.product, cell.configuration)
        held[key] = held.get(key, False) or cell.held
    known = {(each.product, each.name): each.holds for each in CONFIGURATIONS}
    return [", ".join(key) for key, found in held.items() if found != known[key]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
