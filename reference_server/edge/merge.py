"""The metrics of all replicas as one exposition, each sample with the label `replica`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)")
_HEAD = re.compile(r"# (?:HELP|TYPE) (\S+) ")


def merge(texts: Mapping[str, str]) -> str:
    """Prometheus text format 0.0.4, which wants all lines of a metric together and its HELP and
    TYPE once. Lines that are neither are left out."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    for replica, text in texts.items():
        family = ""
        for line in text.splitlines():
            head, sample = _HEAD.match(line), _SAMPLE.fullmatch(line)
            if head is not None:
                family = head[1]
                heads = families.setdefault(family, ([], []))[0]
                if line not in heads:
                    heads.append(line)
            elif sample is not None and sample[1].startswith(family):
                name, labels, value = sample.groups()
                own = f'replica="{replica}"' + (f",{labels}" if labels else "")
                families.setdefault(family, ([], []))[1].append(f"{name}{{{own}}} {value}")
    lines = [line for heads, samples in families.values() for line in (*heads, *samples)]
    return "\n".join(lines) + "\n" if lines else ""
