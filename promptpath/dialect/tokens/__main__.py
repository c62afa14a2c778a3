"""`python -m promptpath.dialect.tokens`: texts on standard input, their token sizes on standard
output, both as `sizes.pack` makes them. The vocabulary's memory goes with the process."""

from __future__ import annotations

import sys

from promptpath.dialect.tokens.sizes import pack, token_sizes, unpack


def main() -> None:
    """Answer once."""
    sys.stdout.buffer.write(pack(token_sizes(unpack(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    main()
