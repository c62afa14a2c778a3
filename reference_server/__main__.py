"""`python -m reference_server`: see docs/commands/serve.md."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from reference_server.options import parse_options
from reference_server.settings import GatewaySettings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the server; returns the exit code: 0 after a clean stop, 1 when it cannot start."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["pull"]:
        from reference_server.pull import main as pull

        return pull(given[1:])
    options = parse_options(given)
    if options.make_key is not None:
        return _make_key(options.make_key, options.settings.gateway)
    # After the options, so that --help and wrong usage do not pay for these imports.
    from reference_server.launch import LaunchError, run

    try:
        run(options)
    except LaunchError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


def _make_key(name: str, settings: GatewaySettings) -> int:
    """Print a new key: the only time that anybody sees it."""
    from reference_server.gateway.keys import append_key, make_key
    from reference_server.gateway.limits import Limits

    limits = Limits(settings.requests_per_minute, settings.tokens_per_minute)
    key, line = make_key(name, limits)
    try:
        append_key(Path(settings.keys or ""), line)
    except OSError as error:
        sys.stderr.write(f"error: the key file cannot be written: {error}\n")
        return 1
    sys.stdout.write(key + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
