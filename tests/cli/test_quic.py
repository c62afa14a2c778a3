"""`promptpath quic`, against the bundled server and against nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from promptpath.cli.quic import url_of
from promptpath.errors import UsageError
from promptpath.model.quic_report import json_schema
from tests.cli.running import promptpath
from tests.e2e.reference import reference_server
from tests.peers.certs import Certificates
from tests.peers.process import free_port


def asked(*arguments: str, code: int = 0) -> dict[str, Any]:
    """The document of a run, valid by its schema."""
    done = promptpath("quic", *arguments, "--json")
    assert done.code == code, done.err + done.out
    document: dict[str, Any] = json.loads(done.out)
    jsonschema.validate(document, json_schema())
    assert document["exit_code"] == code
    return document


def test_handshakes_of_the_bundled_server(certs: Certificates, tmp_path: Path) -> None:
    with reference_server(tmp_path, "--quic-retry", tls=certs.good) as server:
        target, trust = f"localhost:{server.port}", ("--cacert", str(certs.ca))
        document = asked(target, *trust, "--repeat", "3")
        text = promptpath("quic", target, *trust, "--repeat", "2")
        distrusted = asked(target, code=3)
    assert len(document["runs"]) == 3
    for run in document["runs"]:
        assert (run["outcome"], run["round_trips"], run["retry"]) == ("ok", 2, True)
        assert run["verified"] is True and "localhost" in run["names"] and run["resumed"] is True
        assert run["handshake_ms"] > run["rtt_ms"] > 0
        assert "PP220" in {code for code, _, _ in run["findings"]}
        steps = [step for step, _ in run["steps"]]
        assert steps[:3] == ["initial-sent", "retry", "initial-sent"]
    assert text.code == 0 and "median of 2" in text.out and "2 round trips" in text.out
    assert max(map(len, text.out.splitlines())) <= 80
    (failed,) = distrusted["runs"]
    assert failed["failure"]["code"] == "cert-unknown-ca" and failed["verified"] is False


def test_nobody_there_is_exit_code_3_with_a_hint() -> None:
    port = free_port()
    document = asked(f"127.0.0.1:{port}", code=3)
    assert document["runs"][0]["failure"]["code"] == "udp-rejected"
    done = promptpath("quic", f"127.0.0.1:{port}")
    assert done.code == 3 and "hint:" in done.out and "PP226" in done.out


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("h", "https://h/"),
        ("h:8443", "https://h:8443/"),
        ("::1", "https://[::1]/"),
        ("[::1]:8443", "https://[::1]:8443/"),
        ("https://h/v1", "https://h/v1"),
    ],
)
def test_a_target_may_be_written_in_these_ways(text: str, url: str) -> None:
    assert url_of(text) == url


def test_a_target_in_the_clear_is_wrong_usage() -> None:
    with pytest.raises(UsageError):
        url_of("http://h/")
    assert promptpath("quic", "h:99999").code == 2
