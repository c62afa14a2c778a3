"""Log probabilities, and text that is held back, as each surface shows them."""

from __future__ import annotations

from typing import Any

from reference_server.api.logprobs import chat_form, completions_form
from reference_server.engine.generation import TokenLogprob
from tests.reference_server.api.scripted import ScriptedEngine, ask_scripted, steps
from tests.reference_server.harness import MODEL, chat

LIKELY = TokenLogprob(b" BGP", -0.25, ((b" BGP", -0.25), (b" OSPF", -2.0)))
HALF = TokenLogprob(b"\xc3", -1.0)


def test_chats_form_has_text_bytes_and_alternatives() -> None:
    assert chat_form([]) is None
    assert chat_form([LIKELY, HALF]) == {
        "content": [
            {
                "token": " BGP",
                "logprob": -0.25,
                "bytes": [32, 66, 71, 80],
                "top_logprobs": [
                    {"token": " BGP", "logprob": -0.25, "bytes": [32, 66, 71, 80]},
                    {"token": " OSPF", "logprob": -2.0, "bytes": [32, 79, 83, 80, 70]},
                ],
            },
            {"token": "bytes:\\xc3", "logprob": -1.0, "bytes": [195], "top_logprobs": []},
        ],
        "refusal": None,
    }


def test_the_older_form_has_parallel_lists_and_offsets() -> None:
    assert completions_form([], 5) is None
    assert completions_form([LIKELY, LIKELY], 7) == {
        "tokens": [" BGP", " BGP"],
        "token_logprobs": [-0.25, -0.25],
        "top_logprobs": [{" BGP": -0.25, " OSPF": -2.0}] * 2,
        "text_offset": [7, 11],
    }


def test_each_token_of_a_stream_has_its_probability_even_without_text() -> None:
    engine = ScriptedEngine(steps("", "é", "!", logprobs=[[HALF], [LIKELY], [LIKELY]]))
    answer = ask_scripted(engine, "/v1/chat/completions", chat(logprobs=True, top_logprobs=2))
    assert engine.requests[0].params.top_logprobs == 2
    tokens = [
        (choice["delta"].get("content"), entry["token"])
        for event in answer.events()
        for choice in event["choices"]
        for entry in (choice.get("logprobs") or {}).get("content", [])
    ]
    assert tokens == [("", "bytes:\\xc3"), ("é", " BGP"), ("!", " BGP")]


def test_a_document_has_all_of_them() -> None:
    engine = ScriptedEngine(steps("a", "b", logprobs=[[LIKELY], [HALF]]))
    document = ask_scripted(
        engine, "/v1/chat/completions", chat(logprobs=True, stream=False)
    ).json()
    entries = document["choices"][0]["logprobs"]["content"]
    assert [entry["logprob"] for entry in entries] == [-0.25, -1.0]
    assert engine.requests[0].params.top_logprobs == 0


def test_without_a_wish_a_document_says_null() -> None:
    document = ask_scripted(
        ScriptedEngine(steps("a")), "/v1/chat/completions", chat(stream=False)
    ).json()
    assert document["choices"][0]["logprobs"] is None


def _texts(answer: Any) -> list[str]:
    return [event["delta"]["text"] for event in answer.events() if "text" in event.get("delta", {})]


def test_a_token_whose_text_is_held_back_makes_no_event() -> None:
    engine = ScriptedEngine(steps("a", "", "bc"))
    chunks = ask_scripted(engine, "/v1/chat/completions", chat()).events()
    assert [c["choices"][0]["delta"].get("content") for c in chunks] == ["", "a", "bc", None]
    body = {**chat(), "max_tokens": 5}
    assert _texts(ask_scripted(engine, "/v1/messages", body)) == ["a", "bc"]


def test_anthropic_is_told_which_stop_sequence_has_come() -> None:
    engine = ScriptedEngine(steps("a"), stop_text="END")
    body = {"model": MODEL, "max_tokens": 5, "messages": chat()["messages"]}
    document = ask_scripted(engine, "/v1/messages", {**body, "stop_sequences": ["END"]}).json()
    assert (document["stop_reason"], document["stop_sequence"]) == ("stop_sequence", "END")
    assert engine.requests[0].stop == ("END",)
