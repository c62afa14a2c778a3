"""Thousands of strings that tokenizers are known to disagree on; seeded."""

from __future__ import annotations

import random
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_SPACES = " \t\n\r\u00a0\u3000 0123456789abc'’_-"
_SCRIPTS = [
    *map(chr, range(0x20, 0x600)),
    *map(chr, range(0x4E00, 0x4E40)),
    *"\u0301\u200d\U0001f600\U0001f468\U0001f469ſİ١²½ⅷ",
]
_FIXED = [
    *("", " ", "\n", "  a", "a  ", "it's IT'S we’ll", "1234 567", "a1b2", "\t\tx\n\n\ny", "x\r\ny"),
    *("<|im_start|>", "🇩🇪👨‍👩‍👧", "e\u0301 é", "def f(x):\n    return x", "\ufeffbom", "a\u2028b"),
]


def strings(count: int) -> list[str]:
    """Fixed ones, cuts from this repository's files, white space and digits, mixed scripts."""
    dice = random.Random(11)
    files = sorted([*_ROOT.glob("reference_server/**/*.py"), *_ROOT.glob("docs/**/*.md")])
    sources = [file.read_text("utf-8") for file in files]
    found = list(_FIXED)
    while len(found) < count:
        source = dice.choice(sources)
        start = dice.randrange(max(1, len(source)))
        found.append(source[start : start + dice.randrange(300)])
        found.append("".join(dice.choices(_SPACES, k=dice.randrange(40))))
        found.append("".join(dice.choices(_SCRIPTS, k=dice.randrange(40))))
    return found[:count]
