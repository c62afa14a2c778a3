"""`-o x.qlog --qlog-version 0.3`: what qvis reads, which knows no later qlog.

Structure: draft-ietf-quic-qlog-main-schema-02 and draft-ietf-quic-qlog-quic-events-00: a
`qlog_version` in place of schemas, events named by category, times relative to the run's begin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from promptpath.export.qlog import Event, events_of
from promptpath.model.codec import encode
from promptpath.model.document import Document
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_MS

VERSION: Final = "0.3"
_CATEGORIES: Final = {
    "quic:packet_sent": "transport:packet_sent",
    "quic:packet_received": "transport:packet_received",
    "quic:packet_dropped": "transport:packet_dropped",
    "quic:packet_lost": "recovery:packet_lost",
}


def write(document: Document) -> Iterator[bytes]:
    """A `.qlog` file of the old schema."""
    head: dict[str, Json] = {
        "qlog_version": VERSION,
        "qlog_format": "JSON",
        "title": f"{document.tool.name} {document.tool.version}",
    }
    yield encode(head)[:-1] + b',"traces":['
    for index, run in enumerate(document.runs):
        about: dict[str, Json] = {
            "title": f"run {index}",
            "vantage_point": {"name": "promptpath", "type": "client"},
            "common_fields": {"time_format": "relative", "reference_time": 0},
        }
        yield (b"," if index else b"") + encode(about)[:-1] + b',"events":['
        for at, event in enumerate(events_of(run.trace)):
            yield (b"," if at else b"") + encode(_row(event))
        yield b"]}"
    yield b"]}\n"


def _row(event: Event) -> dict[str, Json]:
    at_ns, name, data = event
    row: dict[str, Json] = {"time": at_ns / NS_PER_MS, "name": _CATEGORIES.get(name, name)}
    return {**row, "data": data}
