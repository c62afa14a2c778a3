"""The test suite; `tests/<layer>/test_<file>.py` is the twin of `promptpath/<layer>/<file>.py`."""
