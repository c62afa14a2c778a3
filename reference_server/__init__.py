"""The reference LLM server: a small, honest server whose every stage can be timed from outside.

It shares with the tool only the timing contract (docs/contract/timing.md); neither package imports
the other. `app.py` is a plain ASGI application, `listen/` the listener that stamps each write.
"""
