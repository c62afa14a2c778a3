"""`promptpath tokens TEXT`: the text cut as the model sees it, one token a line."""

from __future__ import annotations

from promptpath.cli.options import TokensOptions
from promptpath.cli.read_input import MAX_TEXT_BYTES, read_input
from promptpath.cli.show import write_bytes, write_text
from promptpath.dialect.tokens.vocabulary import Vocabulary, o200k_base
from promptpath.model.codec import encode
from promptpath.model.redact import printable


def run(options: TokensOptions) -> int:
    """Print the table token | id, and how many there are."""
    text = options.text
    if text == "-":
        raw = read_input("-", MAX_TEXT_BYTES, hint="give the text itself, in quotes")
        text = raw.decode("utf-8", "replace")
    vocabulary = o200k_base()
    ids = vocabulary.encode(text)
    if options.json:
        write_bytes([encode(_as_json(vocabulary, ids)), b"\n"])
    else:
        write_text(table(vocabulary, ids))
    return 0


def table(vocabulary: Vocabulary, ids: list[int]) -> str:
    """One token a line: the token in quotes, so that its blanks show, and its id."""
    rows = [(f'"{token_text(vocabulary, token)}"', str(token)) for token in ids]
    left = max([len("token"), *(len(token) for token, _ in rows)])
    right = max([len("id"), *(len(number) for _, number in rows)])
    lines = [f"{'token':<{left}} | {'id':>{right}}"]
    lines += [f"{token:<{left}} | {number:>{right}}" for token, number in rows]
    count = "1 token" if len(ids) == 1 else f"{len(ids)} tokens"
    return "\n".join([*lines, f"{count} ({vocabulary.name})", ""])


def token_text(vocabulary: Vocabulary, token: int) -> str:
    """The token as text that can be shown; bytes that are no whole character as \\xNN."""
    return printable(vocabulary.token_bytes(token).decode("utf-8", "backslashreplace"))


def _as_json(vocabulary: Vocabulary, ids: list[int]) -> dict[str, object]:
    return {
        "vocabulary": vocabulary.name,
        "count": len(ids),
        "tokens": [{"id": token, "text": token_text(vocabulary, token)} for token in ids],
    }
