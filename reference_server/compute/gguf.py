"""Reading a GGUF file (version 2 or 3, little-endian): its metadata and where its tensors lie.

The file is mapped, not read; every length in it is checked against what is left of the file before
it is believed. Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. No torch here.
"""

from __future__ import annotations

import mmap
import struct
from types import TracebackType

from reference_server.compute.model_file import ModelFileError, TensorInfo, stored_size

Value = int | float | bool | str | list["Value"]
"""What a metadata key may hold."""

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_KINDS = {0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 8: "Q8_0", 30: "BF16"}
_MOST_DIMENSIONS = 4
"""GGML_MAX_DIMS of ggml.h."""
_DEEPEST_ARRAY = 4
"""Arrays of arrays exist in the format, no known file nests them; this bounds the recursion."""


class _Cursor:
    """A place in the mapped file, which never leaves it."""

    def __init__(self, path: str, data: mmap.mmap) -> None:
        self.path = path
        self.at = 0
        self._data = data

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def fail(self, problem: str) -> ModelFileError:
        return ModelFileError(self.path, problem, self.at)

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise self.fail(f"{count} bytes expected, the file ends {self.left} bytes on")
        self.at += count
        return self._data[self.at - count : self.at]

    def number(self, form: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def count(self, smallest: int) -> int:
        """A number of things of at least `smallest` bytes each."""
        value = int(self.number("<Q"))
        if value * smallest > self.left:
            self.at -= 8
            raise self.fail(f"a count of {value} does not fit into the file")
        return value

    def text(self) -> str:
        length = self.count(1)
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            self.at -= length
            raise self.fail("a string is not UTF-8") from None


class GgufFile:
    """A GGUF file that is open for reading; a context manager, or call `close`.

    Raises ModelFileError when the file is damaged, OSError when it cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            try:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:
                raise ModelFileError(path, "the file is empty", 0) from None
        try:
            self._read(_Cursor(path, self._data))
        except BaseException:
            self._data.close()
            raise

    def _read(self, cursor: _Cursor) -> None:
        if (magic := cursor.take(min(4, cursor.left))) != b"GGUF":
            raise ModelFileError(self.path, f"not a GGUF file: it begins with {magic!r}", 0)
        if (version := cursor.number("<I")) not in (2, 3):
            raise ModelFileError(self.path, f"GGUF version {version}, expected 2 or 3", 4)
        tensors = cursor.count(24)
        self.metadata: dict[str, Value] = {}
        for _ in range(cursor.count(13)):
            key = cursor.text()
            self.metadata[key] = _value(cursor, int(cursor.number("<I")))
        infos = [_tensor(cursor) for _ in range(tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment > 65536:
            raise cursor.fail("general.alignment is not from 1 to 65536")
        base = -(-cursor.at // alignment) * alignment
        self.tensors = {info.name: self._placed(info, base) for info in infos}

    def _placed(self, info: TensorInfo, base: int) -> TensorInfo:
        start = base + info.start
        if start + info.size > len(self._data):
            problem = f"tensor {info.name!r} ends behind the end of the file"
            raise ModelFileError(self.path, problem, start)
        return TensorInfo(info.name, info.shape, info.kind, start, info.size)

    def bytes_of(self, info: TensorInfo) -> memoryview:
        """The stored bytes of a tensor; valid while the file is open."""
        return memoryview(self._data)[info.start : info.start + info.size]

    def close(self) -> None:
        """Unmap the file. A view that is still in use (`bytes_of`) makes this a BufferError."""
        self._data.close()

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _value(cursor: _Cursor, kind: int, depth: int = 0) -> Value:
    if (form := _SCALARS.get(kind)) is not None:
        return cursor.number(form)
    if kind == _STRING:
        return cursor.text()
    if kind != _ARRAY or depth == _DEEPEST_ARRAY:
        raise cursor.fail(f"unknown metadata type {kind}")
    element = int(cursor.number("<I"))
    if (form := _SCALARS.get(element)) is not None:
        size = struct.calcsize(form)
        count = cursor.count(size)
        return list(struct.unpack(f"<{count}{form[1]}", cursor.take(count * size)))
    return [_value(cursor, element, depth + 1) for _ in range(cursor.count(8))]


def _tensor(cursor: _Cursor) -> TensorInfo:
    name = cursor.text()
    began = cursor.at
    dimensions = int(cursor.number("<I"))
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise ModelFileError(cursor.path, f"{name!r} has {dimensions} dimensions", began)
    # GGUF counts the innermost dimension first.
    shape = tuple(int(cursor.number("<Q")) for _ in range(dimensions))[::-1]
    number = int(cursor.number("<I"))
    kind = _KINDS.get(number)
    if kind is None:
        known = ", ".join(_KINDS.values())
        problem = f"{name!r} is stored as type {number}; this reader knows {known}"
        raise ModelFileError(cursor.path, problem, began)
    start = int(cursor.number("<Q"))
    size = stored_size(cursor.path, name, shape, kind, began)
    return TensorInfo(name, shape, kind, start, size)
