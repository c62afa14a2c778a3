from __future__ import annotations

import ssl
import subprocess

import pytest

from promptpath.wire.tls_names import CIPHER_SUITES, GROUPS, SIGNATURE_SCHEMES, name_of
from tests.peers.require import require


def test_a_code_without_a_name_is_shown_as_a_number() -> None:
    assert name_of(GROUPS, 0x1D) == "x25519"
    assert name_of(GROUPS, 0x0A0A) == "0x0A0A"


@pytest.mark.peer
def test_cipher_suites_are_named_as_openssl_does() -> None:
    command = [require("openssl"), "ciphers", "-V", "-stdname", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs = {}
    for line in printed.splitlines():
        code, _, name, *_ = line.split()
        high, low = code.split(",")
        theirs[int(high, 16) << 8 | int(low, 16)] = name
    shared = CIPHER_SUITES.keys() & theirs.keys()
    assert len(shared) > 50
    assert {code: CIPHER_SUITES[code] for code in shared} == {code: theirs[code] for code in shared}


def test_every_suite_a_default_client_offers_has_a_name() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for cipher in context.get_ciphers():
        assert cipher["id"] & 0xFFFF in CIPHER_SUITES


def test_no_name_is_given_twice() -> None:
    for table in (CIPHER_SUITES, GROUPS, SIGNATURE_SCHEMES):
        assert len(set(table.values())) == len(table)
