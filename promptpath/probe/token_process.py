"""Token sizes from a short-lived process: the vocabulary would add 75 MB to the measuring one for
the rest of its life (measured), which a warm or repeated run would carry along."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from promptpath.dialect.tokens.sizes import pack, token_sizes, unpack

ANSWER_S = 60.0
"""The most text that is kept takes 1 s with the start (measured: 4 MiB, 0.9 s on an idle machine);
a machine sixty times as busy has other troubles."""


def token_sizes_elsewhere(texts: Sequence[bytes]) -> list[bytes]:
    """`token_sizes` of the texts, cut in another process; in this one where none can be started or
    it dies. Blocks: for after the run."""
    if not any(texts):
        return [b"" for _ in texts]
    import subprocess  # 8 ms that the start need not pay

    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "promptpath.dialect.tokens"],
            input=pack(texts),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=ANSWER_S,
            start_new_session=True,  # Ctrl-C is for us
        )
        sizes = unpack(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return token_sizes(texts)
    return sizes if len(sizes) == len(texts) else token_sizes(texts)
