"""`-o x.sqlog`: qlog as a JSON text sequence."""

from __future__ import annotations

from promptpath.export.qlog import write_sequence

write = write_sequence
