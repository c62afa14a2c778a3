"""A TLS HelloRetryRequest, which aioquic's server never sends, as a fault: one round trip more."""

from __future__ import annotations

import hashlib
from typing import Any

from aioquic._buffer import Buffer
from aioquic.tls import (
    AlertHandshakeFailure,
    AlertIllegalParameter,
    ClientHello,
    CompressionMethod,
    Context,
    ExtensionType,
    Group,
    ServerHello,
    cipher_suite_hash,
    negotiate,
    pull_client_hello,
    push_server_hello,
)
from cryptography.hazmat.primitives.hashes import Hash

_TLS_1_3 = 0x0304
_RANDOM = hashlib.sha256(b"HelloRetryRequest").digest()
"""By this a ServerHello is a HelloRetryRequest (RFC 8446 section 4.1.3)."""
_MESSAGE_HASH = 254
"""Handshake type that stands for the first ClientHello in the transcript (RFC 8446 4.4.1)."""
_GROUPS = (Group.SECP384R1, Group.SECP256R1, Group.X25519)
"""In the order in which they are asked for."""


def ask_again(context: Context) -> None:
    """Have a server's context answer the first ClientHello with a HelloRetryRequest for a group
    of which the client sent no key share. One that sent shares of all groups that we know, as
    aioquic's own, cannot be asked. Resumption must be off: the binder would not fit."""
    first = context._server_handle_hello
    state = _Retry()

    def handle(hello: Buffer, initial: Buffer, handshake: Buffer) -> None:
        if state.transcript:
            if state.group not in _shared(
                pull_client_hello(Buffer(data=hello.data_slice(0, hello.capacity)))
            ):
                raise AlertIllegalParameter("the key share that was asked for is missing")
            first(_Prefixed(hello, state.transcript), initial, handshake)  # type: ignore[arg-type]
            return
        again = state.retry(context, hello.data_slice(0, hello.capacity))
        if again is None:
            first(hello, initial, handshake)
        else:
            hello.seek(hello.capacity)
            initial.push_bytes(again)

    context._server_handle_hello = handle  # type: ignore[method-assign,assignment]


class _Retry:
    """What was asked for, and what the transcript begins with from then on."""

    def __init__(self) -> None:
        self.transcript = b""
        self.group: int | None = None

    def retry(self, context: Context, message: bytes) -> bytes | None:
        """The HelloRetryRequest that answers this ClientHello; None where there is nothing to ask
        for. Raises AlertHandshakeFailure without a common cipher suite."""
        hello = pull_client_hello(Buffer(data=message))
        none = AlertHandshakeFailure("nothing in common")
        cipher_suite = negotiate(context._cipher_suites, hello.cipher_suites, none)
        shared = _shared(hello)
        offered = [group for group in hello.supported_groups or [] if group not in shared]
        self.group = negotiate(list(_GROUPS), offered)
        if self.group is None:
            return None
        answer = ServerHello(
            random=_RANDOM,
            legacy_session_id=hello.legacy_session_id,
            cipher_suite=cipher_suite,
            compression_method=CompressionMethod.NULL,
            supported_version=_TLS_1_3,
            other_extensions=[(ExtensionType.KEY_SHARE, self.group.to_bytes(2, "big"))],
        )
        buffer = Buffer(capacity=512)
        push_server_hello(buffer, answer)
        digest = Hash(cipher_suite_hash(cipher_suite))
        digest.update(message)
        of_first = digest.finalize()
        head = bytes([_MESSAGE_HASH, 0, 0, len(of_first)])
        self.transcript = head + of_first + buffer.data
        return buffer.data


class _Prefixed:
    """A message whose bytes, as they go into the transcript, begin with what came before."""

    def __init__(self, buffer: Buffer, before: bytes) -> None:
        self._buffer = buffer
        self._before = before

    @property
    def data(self) -> bytes:
        return self._before + self._buffer.data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffer, name)


def _shared(hello: ClientHello) -> set[int]:
    return {group for group, _ in hello.key_share or []}
