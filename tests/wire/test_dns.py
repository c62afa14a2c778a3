"""DNS answers: what they say, and what is not an answer to our question."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.wire.dns import (
    MalformedAnswer,
    NotOurAnswer,
    Question,
    https_name,
    question,
    read_answer,
)


def respond(
    asked: Question, *records: str, rcode: str = "NOERROR", truncated: bool = False
) -> bytes:
    query = dns.message.from_wire(asked.wire)
    response = dns.message.make_response(query)
    response.set_rcode(dns.rcode.from_text(rcode))
    if truncated:
        response.flags |= dns.flags.TC
    for record in records:
        name, ttl, rdtype, text = record.split(" ", 3)
        response.answer.append(dns.rrset.from_text(name, int(ttl), "IN", rdtype, text))
    return response.to_wire()


def test_an_address_behind_two_names_keeps_the_chain_and_the_smallest_ttl() -> None:
    asked = question("api.example", "A")
    answer = read_answer(
        asked,
        respond(
            asked,
            "api.example. 300 CNAME edge.example.",
            "edge.example. 60 CNAME pop.example.",
            "pop.example. 20 A 192.0.2.7",
        ),
    )
    assert answer.answers == ("192.0.2.7",)
    assert answer.cname == ("edge.example", "pop.example")
    assert answer.ttl_s == 20


@pytest.mark.parametrize("rcode", ["NXDOMAIN", "SERVFAIL", "REFUSED"])
def test_every_refusal_keeps_its_own_name(rcode: str) -> None:
    asked = question("api.example", "AAAA")
    answer = read_answer(asked, respond(asked, rcode=rcode))
    assert (answer.rcode, answer.answers, answer.ttl_s) == (rcode, (), None)


def test_a_cut_answer_says_so() -> None:
    asked = question("api.example", "A")
    assert read_answer(asked, respond(asked, truncated=True)).truncated


def test_an_https_record_is_laid_open() -> None:
    asked = question("api.example", "HTTPS")
    answer = read_answer(
        asked,
        respond(asked, 'api.example. 60 HTTPS 1 . alpn="h3,h2" ipv4hint=192.0.2.1 port=8443'),
    )
    (record,) = answer.https
    assert record["alpn"] == ["h3", "h2"]
    assert record["ipv4hint"] == ["192.0.2.1"]
    assert (record["port"], record["priority"], record["ech"]) == (8443, 1, False)


def test_the_https_name_of_another_port_is_prefixed() -> None:
    assert https_name("api.example", 443) == "api.example"
    assert https_name("api.example", 8443) == "_8443._https.api.example"


def test_a_loop_of_names_ends() -> None:
    asked = question("a.example", "A")
    answer = read_answer(
        asked, respond(asked, "a.example. 5 CNAME b.example.", "b.example. 5 CNAME a.example.")
    )
    assert answer.answers == ()


def test_an_answer_to_another_question_is_not_ours() -> None:
    asked, other = question("a.example", "A"), question("b.example", "A")
    forged = bytearray(respond(other))
    with pytest.raises(NotOurAnswer):
        read_answer(asked, bytes(forged))
    forged[:2] = asked.wire[:2]
    with pytest.raises(NotOurAnswer):
        read_answer(asked, bytes(forged))
    with pytest.raises(NotOurAnswer):
        read_answer(asked, asked.wire)


@given(st.binary(max_size=80))
def test_hostile_bytes_are_malformed_or_not_ours(tail: bytes) -> None:
    asked = question("a.example", "A")
    data = asked.wire[:2] + b"\x81\x80" + tail
    try:
        read_answer(asked, data)
    except (MalformedAnswer, NotOurAnswer):
        return


@pytest.mark.parametrize("name", ["a" * 64 + ".example", ".".join(["a" * 60] * 5), "a..b"])
def test_what_cannot_be_a_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a DNS name"):
        question(name, "A")
