"""An answer that says no; each surface gives it the shape of its vendor."""

from __future__ import annotations

from reference_server.asgi import Header


class ApiError(Exception):
    """A refused request: HTTP status, a short machine-readable code and a sentence.

    The sentence never repeats the prompt or a key. `param` names the field that is wrong.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: tuple[Header, ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = headers
