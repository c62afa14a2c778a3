"""Reading GGUF files: whole, cut anywhere, and damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference_server.compute.gguf import GgufFile, Value
from reference_server.compute.model_file import ModelFileError
from reference_server.compute.random_model import Stored, float32, metadata, write_gguf

SMALL: dict[str, Value] = {
    "a.text": "grüß",
    "a.flag": True,
    "a.list": [1, 2, 3],
    "a.words": ["x", "yz"],
}


def small(path: Path) -> bytes:
    """A small valid file."""
    tensors = {"one": float32((3,), [1.0, 2.0, 3.0]), "two": Stored((2, 32), 8, bytes(68))}
    write_gguf(path, dict(SMALL), tensors)
    return path.read_bytes()


def broken(path: Path, data: bytes) -> ModelFileError:
    """What reading `data` says."""
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as raised:
        GgufFile(str(path))
    return raised.value


def test_metadata_and_tensors_come_back_as_written(tmp_path: Path) -> None:
    small(tmp_path / "model.gguf")
    with GgufFile(str(tmp_path / "model.gguf")) as file:
        assert file.metadata == SMALL
        one, two = file.tensors["one"], file.tensors["two"]
        assert (one.shape, one.kind, two.shape, two.kind) == ((3,), "F32", (2, 32), "Q8_0")
        assert struct.unpack("<3f", file.bytes_of(one)) == (1.0, 2.0, 3.0)
        assert len(file.bytes_of(two)) == 68


def test_the_random_models_metadata_survives(tmp_path: Path) -> None:
    write_gguf(tmp_path / "model.gguf", metadata(), {})
    with GgufFile(str(tmp_path / "model.gguf")) as file:
        expected = metadata()
        read = file.metadata.pop("llama.attention.layer_norm_rms_epsilon")
        assert read == pytest.approx(
            expected.pop("llama.attention.layer_norm_rms_epsilon"), rel=1e-6
        )
        assert file.metadata == expected


def test_a_file_cut_anywhere_is_refused_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    whole = small(path)
    # The last tensor is followed by padding that nothing needs.
    needed = len(whole.rstrip(b"\0")) if whole[-1] else len(whole) - (-68 % 32)
    for length in range(1, needed):
        error = broken(path, whole[:length])
        assert error.offset is not None and error.offset <= needed


def test_an_empty_file_and_another_kind_of_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    assert "empty" in str(broken(path, b""))
    assert "not a GGUF file" in str(broken(path, b"PK\3\4" + bytes(100)))
    assert "version 1" in str(broken(path, b"GGUF" + struct.pack("<IQQ", 1, 0, 0)))


@pytest.mark.parametrize("count", [2**64 - 1, 2**40, 100])
def test_a_count_larger_than_the_file_is_refused_before_memory_is_taken(
    tmp_path: Path, count: int
) -> None:
    path = tmp_path / "model.gguf"
    tensors = b"GGUF" + struct.pack("<IQQ", 3, count, 0)
    keys = b"GGUF" + struct.pack("<IQQ", 3, 0, count)
    array = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k"
    array += struct.pack("<IIQ", 9, 4, count)
    for data in (tensors, keys, array):
        assert "does not fit" in str(broken(path, data))


def test_an_unknown_quantization_names_those_that_are_known(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, {}, {"w": Stored((1, 256), 14, bytes(210))})
    assert "type 14" in str(broken(path, path.read_bytes()))


def test_a_row_that_is_no_whole_number_of_blocks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_gguf(path, {}, {"w": Stored((2, 33), 3, bytes(40))})
    assert "no whole blocks" in str(broken(path, path.read_bytes()))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(data=st.data())
def test_a_damaged_byte_is_read_or_refused_and_nothing_else(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = tmp_path / "model.gguf"
    damaged = bytearray(small(path))
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(damaged))
    try:
        with GgufFile(str(path)) as file:
            for info in file.tensors.values():
                assert len(file.bytes_of(info)) == info.size
    except ModelFileError:
        pass
