"""The tokenizer and chat template that come with a model's weights. No torch here."""

from __future__ import annotations

from pathlib import Path

from reference_server.compute.gguf import GgufFile
from reference_server.compute.model_file import ModelFileError
from reference_server.text.gguf_vocabulary import gguf_vocabulary
from reference_server.text.json_vocabulary import folder_vocabulary
from reference_server.text.model_text import ModelText
from reference_server.text.vocabulary import VocabularyError


def read_text(path: str) -> ModelText:
    """From a GGUF file's metadata, or from the tokenizer.json of a folder.

    Raises ModelFileError when it is damaged or of a kind that is not known, OSError when it
    cannot be read.
    """
    try:
        if Path(path).is_dir():
            return ModelText(folder_vocabulary(Path(path)))
        with GgufFile(path) as file:
            return ModelText(gguf_vocabulary(file.metadata))
    except VocabularyError as error:
        raise ModelFileError(path, str(error)) from error
