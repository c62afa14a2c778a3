"""promptpath: trace an AI prompt hop by hop, with evidence and an error bar on every time."""

__version__ = "0.1.0"
