"""The program: commands, and what becomes of every way they can end.

Each command is imported only when it runs: `promptpath --help` must not pay for a trace.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Annotated, Any, NoReturn, get_type_hints

import typer
from typer._click import exceptions as click  # typer 0.28 carries its own click

from promptpath import __version__
from promptpath.cli import options as o
from promptpath.cli.check_options import CheckOptions
from promptpath.cli.matrix_options import MatrixOptions
from promptpath.cli.streams import discard_stdout, open_standard_streams, say
from promptpath.errors import ExitCode, PromptpathError, UsageError

app = typer.Typer(
    name="promptpath",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


class _StdoutGoneError(Exception):
    """Nobody reads standard output any more; click would turn an OSError into exit code 1."""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"promptpath {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Trace an AI prompt hop by hop: is it the path, a box in the path, the queue or the GPU?"""


def _command(name: str, options: type[Any], target: str, **settings: Any) -> None:
    """Register `target` ("module:function", called with one `options`) under `name`."""
    hints = get_type_hints(options, include_extras=True)
    parameters = []
    for item in fields(options):
        default = inspect.Parameter.empty if item.default is MISSING else item.default
        parameters.append(
            inspect.Parameter(
                item.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=hints[item.name],
            )
        )

    def callback(**values: Any) -> int:
        module, _, function = target.partition(":")
        run: Callable[[Any], int] = getattr(import_module(module), function)
        try:
            return run(options(**values))
        except BrokenPipeError as error:
            raise _StdoutGoneError from error

    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    callback.__annotations__ = {item.name: hints[item.name] for item in fields(options)}
    app.command(name, **settings)(callback)


_command(
    "trace",
    o.TraceOptions,
    "promptpath.cli.trace:run",
    help="Follow one prompt over every hop. Without a URL: through the bundled server.",
)
_command(
    "check",
    CheckOptions,
    "promptpath.cli.check:run",
    help="Hold paths against budgets, for CI. Without a URL: the bundled server.",
)
_command(
    "explain",
    o.ExplainOptions,
    "promptpath.cli.explain:run",
    help="Show and judge again what was saved.",
)
_command(
    "idle",
    o.IdleOptions,
    "promptpath.cli.idle:run",
    help="Find the timers in the path that end silent streams.",
)
_command(
    "calibrate",
    o.CalibrateOptions,
    "promptpath.cli.calibrate:run",
    help="Find the box in the path that holds streams back.",
)
_command(
    "quic",
    o.QuicOptions,
    "promptpath.cli.quic:run",
    help="Shake hands over QUIC, and say what it took.",
)
_command(
    "matrix",
    MatrixOptions,
    "promptpath.cli.matrix:run",
    help="Compare paths: HTTP versions, families, proxies, warm and cold.",
)
_command("rule", o.RuleOptions, "promptpath.cli.rule:run", help="Say what a finding's code means.")
_command(
    "tokens",
    o.TokensOptions,
    "promptpath.cli.tokens:run",
    help="Cut a text into tokens (o200k_base), offline.",
)
_command(
    "doctor",
    o.DoctorOptions,
    "promptpath.cli.doctor:run",
    help="Say what this machine can measure, and how well.",
)


@app.command(
    "serve",
    help="Run the reference LLM server.",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def _serve(context: typer.Context) -> int:
    from promptpath.cli.serve import run

    return run(context.args)


@app.command(
    "model",
    help="model pull: fetch the server's default model, once.",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def _model(context: typer.Context) -> int:
    from promptpath.cli.model import run

    return run(context.args)


def entry() -> NoReturn:
    """The console script. Exits with an `ExitCode`, never with a traceback unless --debug asks."""
    open_standard_streams()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; every error ends here."""
    debug = "--debug" in arguments
    try:
        code: int | None = app(arguments, prog_name="promptpath", standalone_mode=False)
        sys.stdout.flush()
        return int(code or ExitCode.OK)
    except (BrokenPipeError, _StdoutGoneError):
        return _stdout_gone()
    except PromptpathError as error:
        lines = error.lines()
        if error.hint is None and isinstance(error, UsageError):
            lines.append(f"hint: promptpath {arguments[0]} --help")
        return _fail(lines, error.exit_code, debug)
    except click.ClickException as error:
        return _fail(_click_lines(error), ExitCode.USAGE, debug)
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:
        lines = [
            f"error: this is a bug of promptpath {__version__}: {type(error).__name__}",
            "hint: run it again with --debug and report what it prints",
        ]
        return _fail(lines, ExitCode.BUG, debug)


def _fail(lines: list[str], code: ExitCode, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exc()
    say(*lines)
    return code


def _click_lines(error: click.ClickException) -> list[str]:
    """A wrong command line in the words of `PromptpathError.lines`."""
    if isinstance(error, click.NoArgsIsHelpError):
        return [error.format_message()]
    message = error.format_message().rstrip(".").rstrip()
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "promptpath"
    return [f"error: {message[:1].lower()}{message[1:]}", f"hint: {command} --help"]


def _stdout_gone() -> int:
    """Who read us has seen enough (`promptpath trace | head`): end quietly."""
    discard_stdout()
    return ExitCode.OK
