"""Reading safetensors files: a length, a JSON header, raw numbers. Nothing is ever unpickled.

Format: https://github.com/huggingface/safetensors#format. No torch here.
"""

from __future__ import annotations

import json
import mmap
from typing import Any

from reference_server.compute.model_file import ModelFileError, TensorInfo, stored_size

_LONGEST_HEADER = 100_000_000
"""The limit of the reference implementation (MAX_HEADER_SIZE in safetensors' tensor.rs)."""


class SafetensorsFile:
    """One file, mapped. Raises ModelFileError when it is damaged, OSError when it is not there."""

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:
                raise ModelFileError(path, "the file is empty", 0) from None
        try:
            self.tensors = self._read()
        except BaseException:
            self._data.close()
            raise

    def _read(self) -> dict[str, TensorInfo]:
        size = len(self._data)
        if size < 8:
            raise ModelFileError(self.path, "the file ends inside its first number", size)
        length = int.from_bytes(self._data[:8], "little")
        if length > min(size - 8, _LONGEST_HEADER):
            raise ModelFileError(self.path, f"a header of {length} bytes does not fit", 0)
        try:
            header = json.loads(self._data[8 : 8 + length].decode("utf-8"))
        except (ValueError, RecursionError):
            raise ModelFileError(self.path, "the header is not JSON", 8) from None
        if not isinstance(header, dict):
            raise ModelFileError(self.path, "the header is no JSON object", 8)
        header.pop("__metadata__", None)
        return {name: self._tensor(name, entry, 8 + length) for name, entry in header.items()}

    def _tensor(self, name: str, entry: Any, base: int) -> TensorInfo:
        try:
            kind, shape = str(entry["dtype"]), tuple(entry["shape"])
            start, end = entry["data_offsets"]
            whole = all(type(number) is int and number >= 0 for number in (*shape, start, end))
        except (TypeError, KeyError, ValueError):
            whole = False
        if not whole:
            raise ModelFileError(self.path, f"the entry of {name!r} is damaged", 8)
        if kind not in ("F32", "F16", "BF16"):
            raise ModelFileError(self.path, f"{name!r} is {kind}, expected F32, F16 or BF16", 8)
        size = stored_size(self.path, name, shape, kind, 8)
        if end - start != size or base + end > len(self._data):
            problem = f"{name!r} has {end - start} bytes, expected {size} inside the file"
            raise ModelFileError(self.path, problem, base + start)
        return TensorInfo(name, shape, kind, base + start, size)

    def bytes_of(self, info: TensorInfo) -> memoryview:
        """The stored bytes of a tensor; valid while the file is open."""
        return memoryview(self._data)[info.start : info.start + info.size]

    def close(self) -> None:
        """Unmap the file. A view that is still in use (`bytes_of`) makes this a BufferError."""
        self._data.close()
