"""What starting the server pulls in."""

from __future__ import annotations

import subprocess
import sys


def test_the_server_needs_neither_torch_nor_the_tool_nor_their_heavy_libraries() -> None:
    code = "import sys, reference_server.launch; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "reference_server" in loaded
    heavy = {"torch", "promptpath", "typer", "rich", "tiktoken", "aioquic", "cryptography", "numpy"}
    assert not loaded & heavy
