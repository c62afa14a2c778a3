from __future__ import annotations

import json

import jsonschema

from promptpath.export import jsonfile
from promptpath.model.codec import decode_document, json_schema
from promptpath.model.document import Document
from tests.export.documents import by_hand, document, hostile_trip, trip


def written(made: Document) -> bytes:
    return b"".join(jsonfile.write(made))


def test_every_document_is_valid_by_the_schema() -> None:
    schema = json_schema()
    for made in (by_hand(), document([trip(), trip(kind="warm")]), document([hostile_trip()])):
        jsonschema.validate(json.loads(written(made)), schema)


def test_a_document_read_back_is_written_the_same() -> None:
    once = written(document([trip()]))
    assert written(decode_document(once)) == once
