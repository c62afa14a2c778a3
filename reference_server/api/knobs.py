"""Reading the query of the test streams: numbers and words with their limits."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reference_server.api.errors import ApiError
from reference_server.asgi import Exchange


class Knobs:
    """The query's parameters; each is read once, and what nobody read is an error."""

    def __init__(self, exchange: Exchange) -> None:
        """Raises ApiError 400 when the query has too many fields."""
        try:
            self._left = exchange.query()
        except ValueError:
            raise ApiError(400, "invalid_value", "The query has too many fields.") from None

    def number(self, name: str, default: float, low: float, high: float) -> float:
        """A decimal number from `low` to `high`."""
        text = self._left.pop(name, None)
        if text is None:
            return default
        # A plain decimal only: float() would also take "nan", "1_0" and other scripts' digits.
        value = float(text) if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", text) else None
        if value is None or not low <= value <= high:
            raise ApiError(
                400, "invalid_value", f"'{name}' must be from {low:g} to {high:g}.", param=name
            )
        return value

    def count(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        value = self.number(name, default, low, high)
        if value != int(value):
            raise ApiError(400, "invalid_value", f"'{name}' must be a whole number.", param=name)
        return int(value)

    def word(self, name: str, default: str, words: Sequence[str]) -> str:
        """One of `words`."""
        value = self._left.pop(name, default)
        if value not in words:
            message = f"'{name}' must be one of {', '.join(words)}."
            raise ApiError(400, "invalid_value", message, param=name)
        return value

    def finish(self) -> None:
        """Refuse what is left: a misspelt knob must not measure something else."""
        if self._left:
            raise ApiError(400, "unknown_parameter", "The query has a field nobody knows.")
