"""Health, clock, models, metrics, wrong paths and methods."""

from __future__ import annotations

import pytest

from tests.reference_server.harness import MODEL, ask


def test_healthz_answers_get_and_head_only() -> None:
    assert ask("GET", "/healthz").json() == {"status": "ok"}
    assert ask("HEAD", "/healthz").status == 200
    wrong = ask("POST", "/healthz")
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET")


def test_the_clock_gives_both_stamps_of_the_servers_clock() -> None:
    document = ask("GET", "/promptpath/clock").json()
    assert document["clock"] == "CLOCK_MONOTONIC"
    assert document["received_ns"] == document["sent_ns"] == 0


def test_the_model_list_has_the_one_model() -> None:
    document = ask("GET", "/v1/models").json()
    assert [model["id"] for model in document["data"]] == [MODEL]
    assert "approximate" in document["data"][0]["tokenizer"]


def test_metrics_are_prometheus_text_with_vllms_names() -> None:
    answer = ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in ("num_requests_running", "num_requests_waiting", "request_queue_time_seconds"):
        assert f"\n# TYPE vllm:{name}".encode() in b"\n" + answer.body


@pytest.mark.parametrize("path", ["//", "/v1/nothing", "/healthz/", "/v1/audio/speech"])
def test_an_unknown_path_is_a_404(path: str) -> None:
    answer = ask("GET", path)
    assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")
