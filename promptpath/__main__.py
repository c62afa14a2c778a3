"""The program, as `python -m promptpath` and as the command `promptpath`."""

from __future__ import annotations

import signal
import sys

_PYTHONS_OWN = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _PYTHONS_OWN:
    # Ctrl-C during the imports below ends the process, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from promptpath.cli.main import entry  # noqa: E402

if _PYTHONS_OWN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if __name__ == "__main__":
    sys.exit(entry())
