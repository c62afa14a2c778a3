"""DNS messages: our question, and what an answer to it says. dnspython is only the codec
(`dns.message`); its resolver, its sockets and its clock are never imported (they would pull QUIC
and time by the wall clock).
"""

from __future__ import annotations

from dataclasses import dataclass

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rdtypes.ANY.CNAME
import dns.rdtypes.ANY.SOA
import dns.rdtypes.IN.A
import dns.rdtypes.IN.AAAA
import dns.rdtypes.IN.HTTPS
import dns.rdtypes.svcbbase
import dns.rrset

from promptpath.model.rows import Json

# The codec loads a record type when it first meets one, which took 3 ms of a 0.1 ms answer
# (measured); so the ones we ask for, and what comes with them, are imported here.

EDNS_PAYLOAD_BYTES = 1232
"""Largest UDP answer asked for: fits an IPv6 minimum-MTU packet (DNS Flag Day 2020)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query on its way: bytes to send, and what an answer must match."""

    name: str
    type: str
    """A | AAAA | HTTPS ..."""
    wire: bytes
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response to a question."""

    rcode: str
    """NOERROR | NXDOMAIN | SERVFAIL | REFUSED ..."""
    truncated: bool
    """TC was set: ask again over TCP (RFC 7766)."""
    answers: tuple[str, ...]
    """Addresses, or the records of the type asked for in presentation form."""
    cname: tuple[str, ...]
    """The chain of names from the question to the answer."""
    ttl_s: int | None
    """Smallest TTL of the chain; None without answers."""
    https: tuple[dict[str, Json], ...] = ()
    """HTTPS records as in names.DNS_HTTPS."""


class NotOurAnswer(Exception):
    """A datagram that does not answer this question: another id, another name, a query. It is to be
    ignored, not to be believed (RFC 5452, section 9)."""


class MalformedAnswer(Exception):
    """Bytes that claim to answer this question and are no DNS message."""


def question(name: str, rdtype: str) -> Question:
    """A recursive query with EDNS. `name` is an A-label; raises ValueError when it is no DNS
    name."""
    try:
        message = dns.message.make_query(
            dns.name.from_text(name), rdtype, use_edns=0, payload=EDNS_PAYLOAD_BYTES
        )
    except dns.exception.DNSException as error:
        raise ValueError(f"not a DNS name: {error}") from error
    return Question(name=name, type=rdtype, wire=message.to_wire(), id=message.id)


def https_name(host: str, port: int) -> str:
    """Where the HTTPS record of an origin stands (RFC 9460, section 9.1)."""
    return host if port == 443 else f"_{port}._https.{host}"


def read_answer(asked: Question, data: bytes) -> Answer:
    """What the bytes answer. Raises NotOurAnswer and MalformedAnswer."""
    if len(data) < 12 or int.from_bytes(data[:2], "big") != asked.id or not data[2] & 0x80:
        raise NotOurAnswer
    try:
        message = dns.message.from_wire(data, ignore_trailing=True)
    except dns.message.Truncated as error:  # pragma: no cover - only with raise_on_truncation
        raise MalformedAnswer(str(error)) from error
    except (dns.exception.DNSException, ValueError, IndexError) as error:
        raise MalformedAnswer(type(error).__name__) from error
    wanted = dns.name.from_text(asked.name)
    rdtype = dns.rdatatype.from_text(asked.type)
    if message.question and (
        message.question[0].name != wanted or message.question[0].rdtype != rdtype
    ):
        raise NotOurAnswer
    return _answer(message, wanted, rdtype)


def _answer(
    message: dns.message.Message, name: dns.name.Name, rdtype: dns.rdatatype.RdataType
) -> Answer:
    chain: list[str] = []
    ttls: list[int] = []
    by_name = {(rrset.name, rrset.rdtype): rrset for rrset in message.answer}
    # A CNAME chain longer than the answer section is a loop.
    for _ in message.answer:
        alias = by_name.get((name, dns.rdatatype.CNAME))
        if alias is None or rdtype == dns.rdatatype.CNAME:
            break
        name = alias[0].target
        chain.append(name.to_text(omit_final_dot=True))
        ttls.append(alias.ttl)
    found = by_name.get((name, rdtype))
    if found is not None:
        ttls.append(found.ttl)
    is_https = rdtype == dns.rdatatype.HTTPS
    return Answer(
        rcode=dns.rcode.to_text(message.rcode()),
        truncated=bool(message.flags & dns.flags.TC),
        answers=tuple(rdata.to_text() for rdata in found) if found is not None else (),
        cname=tuple(chain),
        ttl_s=min(ttls) if ttls else None,
        https=tuple(_https(rdata) for rdata in found) if found is not None and is_https else (),
    )


def _https(rdata: dns.rdtypes.svcbbase.SVCBBase) -> dict[str, Json]:
    key = dns.rdtypes.svcbbase.ParamKey
    params = rdata.params
    alpn = params.get(key.ALPN)
    port = params.get(key.PORT)
    hints = {
        name: [str(address) for address in params[which].addresses] if which in params else []
        for name, which in (("ipv4hint", key.IPV4HINT), ("ipv6hint", key.IPV6HINT))
    }
    return {
        "target": rdata.target.to_text(omit_final_dot=True),
        "priority": rdata.priority,
        "alpn": [item.decode("ascii", "replace") for item in alpn.ids] if alpn else [],
        "port": port.port if port else None,
        **hints,
        "ech": key.ECH in params,
    }
