"""`python -m reference_server`: see docs/commands/serve.md."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from reference_server.options import parse_options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server; returns the exit code: 0 after a clean stop, 1 when it cannot start."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    # After the options, so that --help and wrong usage do not pay for these imports.
    from reference_server.launch import LaunchError, run

    try:
        run(options)
    except LaunchError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
