"""Cuts a byte stream into TLS records, and clear records into handshake messages. Sans-IO.

Feeding the TLS engine one record at a time is what gives each record, and the plaintext in it, the
stamp of its own last byte. The far side is hostile: what is no record is noticed at its first wrong
byte, and no more than one unfinished record is ever buffered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from promptpath.model.stamp import Stamp

HEADER_BYTES: Final = 5
"""Content type, version, length (RFC 8446 section 5.1)."""
MAX_FRAGMENT_BYTES: Final = (1 << 14) + 2048
"""Longest record body any version allows (RFC 5246 section 6.2.3; TLS 1.3 allows 2^14 + 256)."""
MAX_MESSAGE_BYTES: Final = 128 * 1024
"""Longest handshake message reassembled here. OpenSSL takes certificate lists up to 100 KiB
(SSL_CTX_set_max_cert_list(3)); this is above it, so that we never give up before the engine."""
SAMPLE_BYTES: Final = 64
"""How much of what is no TLS is kept to say what came instead."""

CHANGE_CIPHER_SPEC: Final = 20
ALERT: Final = 21
HANDSHAKE: Final = 22
APPLICATION_DATA: Final = 23
_CONTENT_TYPES: Final = frozenset({CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA})
_MAJOR_VERSION: Final = 3
"""SSL 3.0 to TLS 1.3 all have it (RFC 8446 section 5.1)."""
_MESSAGE_HEADER_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class TlsRecord:
    """One whole record."""

    content_type: int
    """20 change_cipher_spec, 21 alert, 22 handshake, 23 application_data."""
    data: bytes
    """Header and fragment as they came."""
    stamp: Stamp
    """Of its last byte."""
    offset: int
    """Position of its header in the byte stream: records tile the stream."""

    @property
    def fragment(self) -> bytes:
        """The record's body."""
        return self.data[HEADER_BYTES:]


@dataclass(frozen=True, slots=True)
class NotTls:
    """What came where a record should begin."""

    received: bytes
    """Its first bytes, at most SAMPLE_BYTES."""
    offset: int
    """Where in the stream."""
    why: str
    """Which part of the header is wrong."""
    stamp: Stamp
    """Of the bytes."""


class RecordSplitter:
    """Bytes in, whole records out. After a fault nothing comes out any more."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._offset = 0
        self.fault: NotTls | None = None
        """Set once bytes are no TLS record; the records before them came out."""

    @property
    def pending(self) -> int:
        """Bytes of a record that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes, stamp: Stamp) -> list[TlsRecord]:
        """The records these bytes completed, in order."""
        if self.fault is not None:
            return []
        buffer = self._buffer
        buffer += data
        records: list[TlsRecord] = []
        start = 0
        while start < len(buffer):
            why = _header_fault(buffer, start)
            if why is not None:
                sample = bytes(buffer[start : start + SAMPLE_BYTES])
                self.fault = NotTls(sample, self._offset, why, stamp)
                start = len(buffer)
                break
            if len(buffer) - start < HEADER_BYTES:
                break
            end = start + HEADER_BYTES + int.from_bytes(buffer[start + 3 : start + 5], "big")
            if end > len(buffer):
                break
            raw = bytes(buffer[start:end])
            records.append(TlsRecord(raw[0], raw, stamp, self._offset))
            self._offset += len(raw)
            start = end
        del buffer[:start]
        return records


def _header_fault(buffer: bytearray, start: int) -> str | None:
    """What is wrong with as much of a header as there is, or None."""
    if buffer[start] not in _CONTENT_TYPES:
        return "content type"
    present = len(buffer) - start
    if present >= 2 and buffer[start + 1] != _MAJOR_VERSION:
        return "version"
    if present >= HEADER_BYTES:
        length = int.from_bytes(buffer[start + 3 : start + 5], "big")
        if length > MAX_FRAGMENT_BYTES:
            return "length"
    return None


class MessageAssembler:
    """Joins the fragments of clear handshake records into messages (RFC 8446 section 5.1: a message
    may span records, a record may hold several)."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.oversized = False
        """A message longer than MAX_MESSAGE_BYTES was announced; nothing comes out any more."""

    def feed(self, fragment: bytes) -> list[bytes]:
        """The messages this fragment completed, each with its 4-byte header."""
        if self.oversized:
            return []
        buffer = self._buffer
        buffer += fragment
        messages: list[bytes] = []
        while len(buffer) >= _MESSAGE_HEADER_BYTES:
            size = _MESSAGE_HEADER_BYTES + int.from_bytes(buffer[1:4], "big")
            if size > MAX_MESSAGE_BYTES:
                self.oversized = True
                buffer.clear()
                break
            if size > len(buffer):
                break
            messages.append(bytes(buffer[:size]))
            del buffer[:size]
        return messages
