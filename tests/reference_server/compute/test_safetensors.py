"""Reading safetensors files: whole, cut, and damaged."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference_server.compute.model_file import ModelFileError
from reference_server.compute.safetensors import SafetensorsFile


def document(header: Any, body: bytes = b"") -> bytes:
    """A file with this header."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + body


def entry(kind: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    """One tensor's entry."""
    return {"w": {"dtype": kind, "shape": shape, "data_offsets": offsets}}


VALID = document({"__metadata__": {"format": "pt"}, **entry()}, struct.pack("<2f", 1.0, 2.0))


def test_a_tensor_is_found_with_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(VALID)
    file = SafetensorsFile(str(tmp_path / "m"))
    assert list(file.tensors) == ["w"]
    assert struct.unpack("<2f", file.bytes_of(file.tensors["w"])) == (1.0, 2.0)
    file.close()


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    for length in range(len(VALID)):
        path.write_bytes(VALID[:length])
        with pytest.raises(ModelFileError):
            SafetensorsFile(str(path))


@pytest.mark.parametrize(
    "data",
    [
        (2**63).to_bytes(8, "little") + bytes(64),
        document(b"{"),
        document(b"[]"),
        document(b"\xff\xfe"),
        document(b"[" * 100_000),
        document({"w": None}),
        document(entry(offsets=(0, 4)), bytes(8)),
        document(entry(offsets=(4, 12)), bytes(8)),
        document(entry(offsets=(8, 0)), bytes(8)),
        document(entry(shape=(-2,)), bytes(8)),
        document(entry(shape=(2.0,)), bytes(8)),
        document(entry(shape=(True, 2)), bytes(8)),
        document(entry(shape="2"), bytes(8)),
        document(entry(kind="I64"), bytes(8)),
        document(entry(shape=(2**40, 2**40)), bytes(8)),
    ],
)
def test_what_is_not_a_valid_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "m").write_bytes(data)
    with pytest.raises(ModelFileError):
        SafetensorsFile(str(tmp_path / "m"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(at=st.integers(0, len(VALID) - 1), byte=st.integers(0, 255))
def test_a_damaged_byte_is_read_or_refused_and_nothing_else(
    tmp_path: Path, at: int, byte: int
) -> None:
    damaged = bytearray(VALID)
    damaged[at] = byte
    (tmp_path / "m").write_bytes(bytes(damaged))
    try:
        file = SafetensorsFile(str(tmp_path / "m"))
    except ModelFileError:
        return
    for info in file.tensors.values():
        assert len(file.bytes_of(info)) == info.size
    file.close()
