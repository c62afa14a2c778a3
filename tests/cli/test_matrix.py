from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from promptpath.cli.matrix import order_of
from promptpath.cli.matrix_options import MatrixOptions, cells_of, factors_of
from promptpath.errors import UsageError
from promptpath.model.matrix import json_schema
from tests.cli.running import environment, promptpath
from tests.cli.test_trace import DONE, FINISH, PATH, delta
from tests.e2e.reference import reference_server
from tests.peers.certs import Certificates
from tests.peers.process import free_port
from tests.peers.scripted import ReadRequest, ScriptedOrigin, Step, response, sse_stream

GOOD = [*(delta(f"word{number} ") for number in range(5)), FINISH, DONE]
ASK = ["--model", "m1", "--timeout", "20s", "--proxy", "none"]


def document(text: str) -> dict[str, Any]:
    """The document, valid by its schema."""
    value: dict[str, Any] = json.loads(text)
    jsonschema.validate(value, json_schema())
    assert value["schema"] == "promptpath.matrix/1"
    return value


def test_http_versions_of_the_reference_server(certs: Certificates, tmp_path: Path) -> None:
    saved, page = tmp_path / "m.json", tmp_path / "m.md"
    with reference_server(tmp_path, tls=certs.good) as server:
        url = f"https://localhost:{server.port}{PATH}"
        trust = ["--cacert", str(certs.ca), "--proxy", "none", "--max-tokens", "3"]
        done = promptpath(
            *("matrix", url, *trust, "--repeat", "2", "--json"),
            *("--vary", "http,warm", "-o", str(saved), "-o", str(page)),
        )
    assert done.code == 0, done.err + done.out
    value = document(done.out)
    assert document(saved.read_text()) == value and value["exit_code"] == 0
    names = ["http 1.1, cold", "http 2, cold", "http 3, cold", "http 1.1, warm"]
    assert [cell["name"] for cell in value["cells"]] == names and value["baseline"] == names[0]
    for cell in value["cells"]:
        assert [run["outcome"] for run in cell["runs"]] == ["ok", "ok"]
        assert ("connect_ms" in cell["medians"]) == cell["name"].endswith("cold")
        assert cell["medians"]["ttft_ms"] > 0
    assert {one["difference"] for one in value["comparisons"]} == {"too-few-runs"}
    assert "| http 3, cold | 2/2 |" in page.read_text()


def test_a_cell_whose_path_is_shut_is_a_result_with_its_cost(
    certs: Certificates, tmp_path: Path
) -> None:
    with ScriptedOrigin(sse_stream(GOOD), tls=certs.good.server_context()) as origin:
        url = origin.url(PATH).replace("127.0.0.1", "localhost")
        done = promptpath(
            *("matrix", url, *ASK, "--cacert", str(certs.ca), "--repeat", "2"),
            *("--vary", "http=1.1,3"),
        )
    assert done.code == 0, done.err + done.out
    assert "http 3 failed in 2 of 2 runs after" in " ".join(done.out.split())
    assert max(map(len, done.out.splitlines())) <= 80


def test_nobody_there_is_exit_code_3() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1/chat/completions"
    done = promptpath("matrix", url, *ASK, "--repeat", "1", "--vary", "warm", "--json")
    assert done.code == 3
    assert document(done.out)["sentence"] == "no run of any cell could be measured"


def test_a_rate_limit_ends_it() -> None:
    limited: list[Step] = [ReadRequest(), response(429, b"{}", "application/json")]
    with ScriptedOrigin(limited) as origin:
        done = promptpath("matrix", origin.url(PATH), *ASK, "--vary", "warm", "--json")
    value = document(done.out)
    assert done.code == 1 and "429" in value["notes"][0]
    assert sum(len(cell["runs"]) for cell in value["cells"]) == 1


def test_ctrl_c_keeps_what_was_measured() -> None:
    with ScriptedOrigin(sse_stream(GOOD, gap_ms=50)) as origin:
        command = [sys.executable, "-m", "promptpath", "matrix", origin.url(PATH), *ASK]
        process = subprocess.Popen(
            [*command, "--vary", "accept-encoding", "--repeat", "500", "--json"],
            stdout=subprocess.PIPE,
            env=environment(),
        )
        while len(origin.requests) < 4:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    value = document(out.decode())
    assert process.returncode == 130 and value["interrupted"]
    assert sum(len(cell["runs"]) for cell in value["cells"]) >= 2


@pytest.mark.parametrize(
    ("vary", "word"),
    [
        ("speed", "unknown factor"),
        ("http=2", "two or more"),
        ("http=2,2", "two or more"),
        ("http=2,9", "unknown level"),
        ("family=ipv4,auto", "unknown level"),
        ("http,http", "twice"),
    ],
)
def test_a_wrong_factor_is_named(vary: str, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        factors_of(MatrixOptions(url="http://h/", vary=[vary]))


def test_a_level_that_the_target_cannot_have_names_its_cell() -> None:
    done = promptpath("matrix", f"http://127.0.0.1:1{PATH}", *ASK, "--vary", "http")
    assert done.code == 2 and "the cell http 3" in done.err and "hint:" in done.err


def test_cells_are_one_factor_at_a_time_or_all_combinations() -> None:
    factors = factors_of(MatrixOptions(url="http://h/", vary=["http=1.1,2", "warm"]))
    single = [cell.name for cell in cells_of(factors, crossed=False)]
    assert single == ["http 1.1, cold", "http 2, cold", "http 1.1, warm"]
    assert len(cells_of(factors, crossed=True)) == 4
    encodings = ",".join(f"x{number}" for number in range(65))
    many = factors_of(MatrixOptions(url="http://h/", vary=[f"accept-encoding={encodings}"]))
    with pytest.raises(UsageError, match="65 cells"):
        cells_of(many, crossed=False)


def test_a_proxys_password_is_not_in_a_cells_name() -> None:
    factors = factors_of(MatrixOptions(url="http://h/", vary=["proxy=none,http://u:hunter2@p:1"]))
    cells = cells_of(factors, crossed=False)
    assert "hunter2" not in repr(cells) + str([cell.public for cell in cells])


def test_each_round_has_every_cell_once_in_an_order_the_seed_decides() -> None:
    rounds = [order for _, order in order_of(4, 50, 1)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in rounds)
    assert rounds == [order for _, order in order_of(4, 50, 1)]
    assert rounds != [order for _, order in order_of(4, 50, 2)]
    assert len(Counter(map(tuple, rounds))) > 10
