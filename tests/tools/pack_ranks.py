"""Makes promptpath/dialect/tokens/data/o200k_base.xz out of a .tiktoken file.

    python -m tests.tools.pack_ranks PATH/o200k_base.tiktoken

The file is inside the PyPI wheel `bpe-openai` (MIT), gzipped, as
bpe_openai/data/o200k_base.tiktoken.gz. The result is written only when the input's SHA-256 is that
of the real vocabulary.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from promptpath.dialect.tokens import ranks

TARGET = Path(ranks.__file__).with_name("data") / "o200k_base.xz"


def main(source: Path) -> str:
    """Pack `source`; returns the SHA-256 to put into vocabulary.PACKED_SHA256."""
    original = source.read_bytes()
    found = hashlib.sha256(original).hexdigest()
    if found != ranks.O200K_SHA256:
        raise SystemExit(f"{source}: SHA-256 {found}, not {ranks.O200K_SHA256}")
    packed = ranks.pack(original)
    TARGET.write_bytes(packed)
    return hashlib.sha256(packed).hexdigest()


if __name__ == "__main__":
    sys.stdout.write(main(Path(sys.argv[1])) + "\n")
