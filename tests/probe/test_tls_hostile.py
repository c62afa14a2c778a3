"""A server that sends anything at all: the client says what is wrong, and nothing else happens."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.errors import MeasureError
from promptpath.model.stamp import user_stamp
from promptpath.probe.link import Chunk, Closed, Sent
from tests.peers.certs import Certificates
from tests.probe.tls_client import Client

END = Closed("fin", user_stamp(9))


class Bent:
    """A link to a TLS server in memory whose answers are bent on the way: bytes replaced, pieces
    cut out or repeated, or rubbish instead."""

    conn = 1

    def __init__(
        self, context: ssl.SSLContext, bends: list[tuple[int, int]], rubbish: bytes
    ) -> None:
        self._to_server, self._from_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._server = context.wrap_bio(self._to_server, self._from_server, server_side=True)
        self._bends = bends
        self._rubbish = rubbish
        self._turns = 0

    def write(self, data: bytes, mark: str | None = None) -> None:
        self._to_server.write(data)

    def sent(self, mark: str) -> Sent:
        return Sent(None, None, None)

    async def receive(self, deadline_ns: int | None = None) -> list[Chunk | Closed]:
        self._turns += 1
        with contextlib.suppress(ssl.SSLError):
            self._server.do_handshake()
        answer = bytearray(self._from_server.read())
        for place, value in self._bends:
            if answer:
                answer[place % len(answer)] = value
        answer += self._rubbish
        if not answer or self._turns > 4:
            return [END]
        return [Chunk(bytes(answer), user_stamp(self._turns))]

    async def close(self) -> None:
        pass

    def abort(self) -> None:
        pass


def shake(bent: Bent, certs: Certificates, *, insecure: bool) -> Client:
    client = Client()

    async def scenario() -> None:
        try:
            link = await client.shake(bent, ca=certs.ca, insecure=insecure)  # type: ignore[arg-type]
        except MeasureError as error:
            assert error.stage == "tls"
            assert error.code
            assert "\x1b" not in " ".join(error.lines())
            return
        data = [await link.receive() for _ in range(3)]
        assert isinstance(data[-1][-1], Closed)
        link.record_certificates()
        await link.close()

    asyncio.run(scenario())
    return client


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=3),
    st.binary(max_size=30),
    st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]),
    st.booleans(),
)
def test_bent_answers_end_in_a_measure_error_or_a_good_link(
    certs: Certificates,
    bends: list[tuple[int, int]],
    rubbish: bytes,
    version: ssl.TLSVersion,
    insecure: bool,
) -> None:
    bent = Bent(certs.good.server_context(maximum=version), bends, rubbish)
    shake(bent, certs, insecure=insecure)


def test_straight_answers_give_a_good_link(certs: Certificates) -> None:
    client = shake(Bent(certs.good.server_context(), [], b""), certs, insecure=False)
    assert client.fact("tls.verify")["verified"] is True


def test_a_flood_of_change_cipher_specs_is_no_flood_of_marks(certs: Certificates) -> None:
    flood = b"\x14\x03\x03\x00\x01\x01" * 2000
    client = shake(Bent(certs.good.server_context(), [], flood), certs, insecure=False)
    assert len(client.recorder.log.marks) <= 100
