"""What every reader of model files shares: the tensors' description and the one error. No torch."""

from __future__ import annotations

from dataclasses import dataclass


class ModelFileError(Exception):
    """A model file cannot be used: which file, where in it (a byte offset), what was expected."""

    def __init__(self, path: str, problem: str, offset: int | None = None) -> None:
        where = "" if offset is None else f" at byte {offset}"
        super().__init__(f"{path}{where}: {problem}")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies in its file."""

    name: str
    shape: tuple[int, ...]
    """Outermost dimension first, as torch counts."""
    kind: str
    """How the numbers are stored: "F32", "F16", "BF16", "Q8_0", "Q4_0" or "Q4_1"."""
    start: int
    """First byte, from the start of the file."""
    size: int
    """Bytes."""


BLOCK_BYTES = {
    "F32": (1, 4),
    "F16": (1, 2),
    "BF16": (1, 2),
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q8_0": (32, 34),
}
"""Numbers in one block and bytes of it, by kind (ggml's block_q4_0, block_q4_1, block_q8_0)."""


def stored_size(path: str, name: str, shape: tuple[int, ...], kind: str, offset: int) -> int:
    """Bytes of a tensor. Raises ModelFileError when its rows are not whole blocks."""
    numbers, size = BLOCK_BYTES[kind]
    count = 1
    for length in shape:
        count *= length
    if shape and shape[-1] % numbers:
        raise ModelFileError(path, f"rows of {name!r} are no whole blocks of {kind}", offset)
    return count // numbers * size
