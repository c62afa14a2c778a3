"""The JSON document, as `--json` prints it and `-o x.json` writes it (promptpath.report/1)."""

from __future__ import annotations

from collections.abc import Iterator

from promptpath.model.codec import encode_document
from promptpath.model.document import Document


def write(document: Document) -> Iterator[bytes]:
    """The document in pieces, so that a long stream is not held twice."""
    return encode_document(document)
