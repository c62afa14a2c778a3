from __future__ import annotations

import gzip
import importlib
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.wire import content_coding
from promptpath.wire.content_coding import ContentDecoder, decoder_for
from tests.wire.feeding import cut_lists, pieces

EVENTS = [b"data: {\"n\": %d, \"t\": \"token\"}\n\n" % n for n in range(20)]  # fmt: skip
BODY = b"".join(EVENTS)


def library(name: str) -> Any:
    return pytest.importorskip(name, reason=f"pip install {name}")


def zstd() -> Any:
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return library("backports.zstd")


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-15)


def brotli(data: bytes) -> bytes:
    return bytes(library("brotli").compress(data))


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate raw": raw_deflate,
    "br": brotli,
    "zstd": lambda data: bytes(zstd().compress(data)),
    "deflate, gzip": lambda data: gzip.compress(zlib.compress(data)),
}


def decoder(name: str) -> ContentDecoder:
    made = decoder_for(name.removesuffix(" raw"))
    assert made is not None
    return made


def decoded(name: str, data: bytes, cuts: list[int] | range = range(0)) -> bytes:
    coder = decoder(name)
    out = b"".join(coder.feed(piece) for piece in pieces(data, cuts))
    coder.end()
    assert coder.error is None
    assert (coder.encoded_bytes, coder.decoded_bytes) == (len(data), len(out))
    return out


@pytest.mark.parametrize("name", ENCODERS)
def test_a_body_comes_back_whole_and_byte_by_byte(name: str) -> None:
    coded = ENCODERS[name](BODY)
    assert decoded(name, coded) == BODY
    assert decoded(name, coded, range(len(coded))) == BODY


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_one_member_after_the_other_is_one_body(name: str) -> None:
    coded = b"".join(ENCODERS[name](part) for part in (b"one ", b"", b"two ", b"three"))
    assert decoded(name, coded) == b"one two three"
    assert decoded(name, coded, range(len(coded))) == b"one two three"


def test_zeros_behind_gzip_are_padding() -> None:
    assert decoded("gzip", gzip.compress(BODY) + bytes(512)) == BODY


def flushing(name: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    """What compresses an event and flushes it, and what ends the stream."""
    if name == "br":
        stream = library("brotli").Compressor()
        return lambda data: stream.process(data) + stream.flush(), stream.finish
    if name == "zstd":
        frames = zstd().ZstdCompressor()
        return (
            lambda data: frames.compress(data, frames.FLUSH_BLOCK),
            lambda: frames.flush(frames.FLUSH_FRAME),
        )
    packer = zlib.compressobj(wbits=31 if name == "gzip" else 15)
    return (
        lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH),
        lambda: packer.flush(zlib.Z_FINISH),
    )


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_flushed_event_comes_out_with_its_last_byte(name: str) -> None:
    compress, finish = flushing(name)
    coder = decoder(name)
    for event in EVENTS:
        coded = compress(event)
        assert coder.feed(coded[:-4]) + coder.feed(coded[-4:]) == event
    coder.feed(finish())
    coder.end()
    assert coder.error is None


@pytest.mark.parametrize("name", ENCODERS)
def test_a_body_that_is_cut_off_says_so_and_keeps_what_came(name: str) -> None:
    noise = random.Random(1).randbytes(20_000)
    coded = ENCODERS[name](noise)
    coder = decoder(name)
    out = coder.feed(coded[: len(coded) // 2])
    coder.end()
    assert coder.error == "the coded data is cut off"
    assert noise.startswith(out)
    assert coder.feed(b"more") == b""


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_what_is_not_coded_at_all_is_an_error_not_an_exception(name: str) -> None:
    coder = decoder(name)
    assert coder.feed(b"data: plain text under a wrong header\n\n" * 50) == b""
    assert coder.error is not None
    assert coder.error.isprintable()


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_bytes_behind_the_end_are_an_error_after_the_body(name: str) -> None:
    coder = decoder(name)
    assert coder.feed(ENCODERS[name](BODY) + b"surprise") == BODY
    assert coder.error is not None and "behind the end" in coder.error


@pytest.mark.parametrize("name", ENCODERS)
def test_a_bomb_stops_at_the_limit_of_the_caller(name: str) -> None:
    coder = decoder(name)
    coded = ENCODERS[name](bytes(8_000_000))
    out = b"".join(coder.feed(piece, 100_000) for piece in pieces(coded, [len(coded) // 2]))
    assert len(out) <= 200_000
    assert coder.error is not None and "more than 100000 bytes" in coder.error
    assert coder.feed(coded, 100_000) == b""


def test_a_bomb_stops_without_a_limit_of_the_caller_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_coding, "MAX_OUTPUT_PER_FEED", 1_000_000)
    coder = decoder("gzip")
    assert len(coder.feed(gzip.compress(bytes(8_000_000)))) == 1_000_000
    assert coder.error is not None


def test_a_body_exactly_at_the_limit_is_no_bomb() -> None:
    coder = decoder("gzip")
    assert coder.feed(gzip.compress(bytes(100_000)), 100_000) == bytes(100_000)
    coder.end()
    assert coder.error is None


def test_a_limit_of_nothing_gives_nothing() -> None:
    coder = decoder("gzip")
    assert coder.feed(gzip.compress(BODY), 0) == b""
    assert coder.error is not None


@pytest.mark.parametrize("value", ["", " ", "identity", "Identity, identity"])
def test_a_body_that_is_not_coded_needs_no_decoder(value: str) -> None:
    assert decoder_for(value) is None


@pytest.mark.parametrize(
    ("value", "says"),
    [("compress", "unknown"), ("gzip, x", "unknown"), (",".join(["gzip"] * 6), "6 codings")],
)
def test_what_cannot_be_decoded_says_so_from_the_start(value: str, says: str) -> None:
    coder = decoder_for(value)
    assert coder is not None and coder.error is not None
    assert says in coder.error
    assert coder.feed(b"x") == b""
    assert coder.encoded_bytes == 1


@pytest.mark.parametrize(("value", "package"), [("br", "brotli"), ("zstd", "backports.zstd")])
def test_a_coding_without_its_library_names_the_package(
    value: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_coding, "_library", lambda name: None)
    assert package in str(decoder(value).error)


@given(st.sampled_from(["gzip", "deflate", "br", "zstd"]), st.binary(max_size=200), cut_lists(200))
def test_random_bytes_never_raise(name: str, data: bytes, cuts: list[int]) -> None:
    coder = decoder(name)
    for piece in pieces(data, cuts):
        coder.feed(piece, 1_000_000)
    coder.end()


@given(st.sampled_from(list(ENCODERS)), st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_damaged_bodies_never_raise(name: str, place: int, junk: bytes) -> None:
    coded = ENCODERS[name](BODY)
    coder = decoder(name)
    coder.feed(coded[:place] + junk + coded[place + len(junk) :], 1_000_000)
    coder.end()
