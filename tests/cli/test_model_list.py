from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from promptpath.cli.model_list import choose_model, list_models, models_path
from promptpath.dialect.openai_chat import OPENAI_CHAT
from promptpath.errors import UsageError
from promptpath.model.plan import Plan, Target
from tests.peers.certs import Certificates
from tests.peers.scripted import HOLD, ScriptedOrigin


@contextmanager
def model_server(answer: bytes, status: int = 200) -> Iterator[Plan]:
    """A plan for a server on loopback whose /v1/models gives `answer`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/v1/models" else 404)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            target = Target(
                scheme="http",
                host="127.0.0.1",
                port=server.server_port,
                path="/v1/chat/completions",
            )
            yield Plan(target=target, method="POST")
        finally:
            server.shutdown()
            thread.join()


def models(*names: str) -> bytes:
    return json.dumps({"data": [{"id": name} for name in names]}).encode()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/chat/completions", "/v1/models"),
        ("/v1/messages", "/v1/models"),
        ("/openai/v1/responses", "/openai/v1/models"),
        ("/chat/completions", "/models"),
        ("/v1/other", None),
    ],
)
def test_the_list_lies_beside_the_prompts_path(path: str, expected: str | None) -> None:
    assert models_path(path) == expected


def test_names_are_listed_and_made_printable() -> None:
    with model_server(models("a", "b\x1b[31m")) as plan:
        assert list_models(plan) == ["a", "b\\x1b[31m"]


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[]", b'{"data": 1}', b'{"data": [1, {"id": 2}, {}]}', b"[" * 99999]
)
def test_an_answer_of_another_kind_lists_nothing(answer: bytes) -> None:
    with model_server(answer) as plan:
        assert list_models(plan) == []


def test_a_server_that_says_no_lists_nothing() -> None:
    with model_server(models("a"), status=401) as plan:
        assert list_models(plan) == []


def test_why_the_list_could_not_be_had_is_said() -> None:
    with model_server(models("a")) as plan:
        pass
    with pytest.raises(UsageError) as raised:  # it has gone
        choose_model(plan, OPENAI_CHAT)
    assert "(its list could not be had: connection refused)" in (raised.value.hint or "")


def test_a_certificate_that_does_not_verify_is_the_reason(certs: Certificates) -> None:
    with ScriptedOrigin([HOLD], tls=certs.good.server_context()) as origin:
        target = Target(scheme="https", host="127.0.0.1", port=origin.port, path="/v1/messages")
        with pytest.raises(UsageError) as raised:
            choose_model(Plan(target=target, method="POST"), OPENAI_CHAT)
    assert "unable to get local issuer certificate; see --cacert)" in (raised.value.hint or "")


def test_the_only_model_on_this_machine_is_taken() -> None:
    with model_server(models("only")) as plan:
        chosen, notices = choose_model(plan, OPENAI_CHAT)
    assert chosen.model == "only" and "only" in notices[0]


def test_among_several_the_user_chooses_with_help() -> None:
    names = [f"model-{number}" for number in range(15)]
    with model_server(models(*names)) as plan, pytest.raises(UsageError) as raised:
        choose_model(plan, OPENAI_CHAT)
    assert "model-0, model-1" in (raised.value.hint or "")
    assert "and 3 more" in (raised.value.hint or "")


def test_a_remote_model_is_never_chosen_for_the_user() -> None:
    with model_server(models("only")) as plan:
        remote = replace(plan, target=replace(plan.target, host="127.0.0.1.nip.invalid"))
        with pytest.raises(UsageError, match="no model named"):
            choose_model(remote, OPENAI_CHAT)


def test_nothing_is_asked_when_a_model_or_a_body_is_there() -> None:
    plan = Plan(target=Target(scheme="http", host="127.0.0.1", port=1, path="/v1/messages"))
    for ready in (replace(plan, model="m"), replace(plan, body=b"{}")):
        assert choose_model(ready, OPENAI_CHAT) == (ready, ())
    assert choose_model(plan, None) == (plan, ())
