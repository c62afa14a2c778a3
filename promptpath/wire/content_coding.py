"""Content codings of a response body (RFC 9110, section 8.4), undone as the bytes arrive.

Whatever can be decoded from the bytes so far comes out at once, so an event that a server flushed
(zlib's Z_SYNC_FLUSH, brotli's FLUSH, a zstd block) is not held back here. Corrupt, cut or bursting
input ends in `error`, never in an exception.
"""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Final, Protocol

MAX_OUTPUT_PER_FEED: Final = 128 * 1_048_576
"""More than this out of one `feed` is a bomb. deflate cannot expand more than 1,032 to 1 (zlib's
technical notes), so 64 KiB of it stay below 66 MiB; brotli and zstd know no such bound."""

MAX_CODINGS: Final = 5
"""Codings on top of each other; curl's limit (its answer to CVE-2022-32206)."""

_STEP_BYTES: Final = 1_048_576
"""Asked of a codec at once whose output goes into another one."""

_GZIP: Final = 16 + zlib.MAX_WBITS
_RAW: Final = -zlib.MAX_WBITS


class _CodingError(Exception):
    """The bytes are not what the coding says."""


class _Codec(Protocol):
    """One coding. `decode` gives at most `most` bytes (> 0) and keeps the input it did not use;
    called with b"" it goes on with that."""

    def decode(self, data: bytes, most: int) -> bytes: ...

    def whole(self) -> bool:
        """The coded data came to its end."""


class ContentDecoder:
    """One body's decoder; see `decoder_for`."""

    def __init__(self, encoding: str, codecs: list[_Codec], error: str | None = None) -> None:
        self.encoding = encoding
        """As in Content-Encoding, in lower case."""
        self.encoded_bytes = 0
        """Bytes fed."""
        self.decoded_bytes = 0
        """Bytes given out."""
        self.error = error
        """Why nothing more comes out; None while all is well."""
        self._codecs = codecs

    def feed(self, data: bytes, most: int | None = None) -> bytes:
        """Everything that can be decoded now, at most `most` bytes (and MAX_OUTPUT_PER_FEED); where
        there is more, `error` says so and decoding ends."""
        self.encoded_bytes += len(data)
        if self.error is not None or not data:
            return b""
        limit = MAX_OUTPUT_PER_FEED if most is None else min(most, MAX_OUTPUT_PER_FEED)
        out = self._through(self._codecs, data, limit)
        if len(out) > limit:
            self.error = f"more than {limit} bytes came out of {len(data)}"
            out = out[:limit]
        self.decoded_bytes += len(out)
        return out

    def end(self) -> None:
        """The body is over: when the coded data is not, `error` says so."""
        if self.error is None and self.encoded_bytes and not all(c.whole() for c in self._codecs):
            self.error = "the coded data is cut off"

    def _through(self, codecs: list[_Codec], data: bytes, limit: int) -> bytes:
        """Out of the last codec, up to one byte beyond `limit`; a codec before it is asked again
        until it has no more, so no intermediate result outgrows the limit either."""
        out, size, turn = [], 0, data
        first, rest = codecs[0], codecs[1:]
        while size <= limit and self.error is None:
            try:
                piece = first.decode(turn, _STEP_BYTES if rest else limit + 1 - size)
            except _CodingError as error:
                self.error = str(error)
                break
            if not piece:
                break
            turn = b""
            if rest:
                piece = self._through(rest, piece, limit - size)
            out.append(piece)
            size += len(piece)
        return b"".join(out)


def decoder_for(content_encoding: str) -> ContentDecoder | None:
    """The decoder for a Content-Encoding value; None when nothing is coded. For a coding that is
    unknown, or whose library is not installed, its `error` is set from the start."""
    encoding = content_encoding.strip().lower()
    names = [name for name in (part.strip() for part in encoding.split(",")) if name]
    names = [name for name in names if name != "identity"]
    if not names:
        return None
    if len(names) > MAX_CODINGS:
        return ContentDecoder(encoding[:100], [], f"{len(names)} codings on top of each other")
    codecs: list[_Codec] = []
    for name in reversed(names):  # the last one named was applied last
        codec = _codec(name)
        if isinstance(codec, str):
            return ContentDecoder(encoding[:100], [], codec)
        codecs.append(codec)
    return ContentDecoder(encoding, codecs)


def _codec(name: str) -> _Codec | str:
    """A codec, or why there is none."""
    match name:
        case "gzip" | "x-gzip":
            return _Gzip()
        case "deflate":
            return _Deflate()
        case "br":
            brotli = _library("brotli")
            bounded = hasattr(getattr(brotli, "Decompressor", None), "can_accept_more_data")
            return _Brotli(brotli) if bounded else "br needs the package brotli, at least 1.2"
        case "zstd":
            zstd = _library("compression.zstd") or _library("backports.zstd")
            return _Zstd(zstd) if zstd else "zstd needs Python 3.14 or the package backports.zstd"
    return "an unknown content coding"


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class _Gzip:
    """gzip members one after the other (RFC 1952, section 2.2)."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._kept = b""

    def decode(self, data: bytes, most: int) -> bytes:
        data = self._kept + data
        while True:
            if self._member.eof:
                data = data.lstrip(b"\0")  # padding, which gzip(1) and Python's gzip skip too
                if data and data[:1] != b"\x1f":
                    raise _CodingError("bytes behind the end of the gzip data")
                if not data:
                    self._kept = b""
                    return b""
                self._member = zlib.decompressobj(_GZIP)
            out = _inflate(self._member, data, most)
            self._kept = data = self._member.unused_data or self._member.unconsumed_tail
            if out or not self._member.eof:
                return out

    def whole(self) -> bool:
        return self._member.eof


class _Deflate:
    """`deflate` is the zlib format (RFC 9110, section 8.4.1.2); some servers send raw deflate,
    which the zlib header's check bits tell apart (RFC 1950, section 2.2)."""

    def __init__(self) -> None:
        self._stream: zlib._Decompress | None = None
        self._kept = b""

    def decode(self, data: bytes, most: int) -> bytes:
        data = self._kept + data
        self._kept = b""
        if self._stream is None:
            if len(data) < 2:
                self._kept = data
                return b""
            zlib_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if zlib_header else _RAW)
        if self._stream.eof:
            if data.strip(b"\0"):
                raise _CodingError("bytes behind the end of the deflate data")
            return b""
        out = _inflate(self._stream, data, most)
        self._kept = self._stream.unused_data or self._stream.unconsumed_tail
        return out

    def whole(self) -> bool:
        return self._stream is not None and self._stream.eof


def _inflate(stream: zlib._Decompress, data: bytes, most: int) -> bytes:
    try:
        return stream.decompress(data, most)
    except zlib.error as error:
        raise _CodingError(f"corrupt deflate data ({error})") from error


class _Brotli:
    """brotli (RFC 7932)."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._stream = library.Decompressor()
        self._kept = b""

    def decode(self, data: bytes, most: int) -> bytes:
        self._kept += data
        if self._stream.is_finished():
            if self._kept:
                raise _CodingError("bytes behind the end of the brotli data")
            return b""  # brotli calls bytes behind the end that come with it corrupt
        feed = self._kept if self._stream.can_accept_more_data() else b""
        if feed:
            self._kept = b""
        try:
            out = self._stream.process(feed, output_buffer_limit=most)
        except self._library.error as error:
            raise _CodingError("corrupt brotli data") from error
        return bytes(out)

    def whole(self) -> bool:
        return bool(self._stream.is_finished())


class _Zstd:
    """zstd frames one after the other (RFC 8878, section 3)."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self._frame = library.ZstdDecompressor()
        self._kept = b""

    def decode(self, data: bytes, most: int) -> bytes:
        self._kept += data
        while True:
            if self._frame.eof:
                if not self._kept:
                    return b""
                self._frame = self._library.ZstdDecompressor()
            feed, self._kept = self._kept, b""
            try:
                out = self._frame.decompress(feed, most)
            except self._library.ZstdError as error:
                raise _CodingError("corrupt zstd data") from error
            if self._frame.eof:
                self._kept = self._frame.unused_data
            if out or not self._kept:
                return bytes(out)

    def whole(self) -> bool:
        return bool(self._frame.eof)
