"""What may be typed after `promptpath check`, and stand in its budget file under the same names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from typer import Argument, Option

from promptpath.cli.options import DialOptions, ProcessOptions, PromptOptions, Text, Texts


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """What is promised of a target."""

    max_hold: Annotated[
        Text, Option("--max-hold", metavar="TIME", help="A tenth of the events held, at most.")
    ] = None
    max_dns: Annotated[Text, Option("--max-dns", metavar="TIME", help="Name resolution.")] = None
    max_tcp: Annotated[Text, Option("--max-tcp", metavar="TIME", help="TCP connect.")] = None
    max_tls: Annotated[Text, Option("--max-tls", metavar="TIME", help="TLS handshake.")] = None
    max_headers: Annotated[
        Text, Option("--max-headers", metavar="TIME", help="Start to the response head.")
    ] = None
    max_ttft: Annotated[
        Text, Option("--max-ttft", metavar="TIME", help="Start to the first visible text.")
    ] = None
    max_total: Annotated[
        Text, Option("--max-total", metavar="TIME", help="Start to the end of the response.")
    ] = None
    max_itl_p95: Annotated[
        Text, Option("--max-itl-p95", metavar="TIME", help="The p95 time per token.")
    ] = None
    require_streaming: Annotated[
        bool, Option("--require-streaming", help="Nobody in the path holds the stream back.")
    ] = False
    require_terminal: Annotated[
        bool, Option("--require-terminal", help="The stream ends with its terminal event.")
    ] = False
    require_http: Annotated[
        Text, Option("--require-http", metavar="1.1|2", help="At least this HTTP version.")
    ] = None
    require_tls: Annotated[
        Text, Option("--require-tls", metavar="1.2|1.3", help="At least this TLS version.")
    ] = None
    min_idle: Annotated[
        Text,
        Option(
            "--min-idle",
            metavar="TIME",
            help="A stream may be silent for so long; needs a reference server, takes as long.",
        ),
    ] = None
    allow: Annotated[
        Texts, Option("--allow", metavar="CODE", help="A finding that does not count (repeatable).")
    ] = None
    repeat: Annotated[
        int,
        Option("--repeat", metavar="N", min=1, help="Measure N times and judge them together."),
    ] = 1


@dataclass(frozen=True, kw_only=True)
class CheckOptions(ProcessOptions, BudgetOptions, DialOptions, PromptOptions):
    """`promptpath check [URL|FILE.toml]`."""

    target: Annotated[
        Text,
        Argument(
            metavar="[URL|FILE.toml]",
            help="What to check, or a budget file; none: the bundled reference server.",
        ),
    ] = field(default=None, repr=False)
    config: Annotated[
        Text, Option("--config", metavar="FILE.toml", help="A budget file with several targets.")
    ] = None
    strict: Annotated[bool, Option("--strict", help="Fail on inconclusive budgets too.")] = False
    json: Annotated[
        bool, Option("--json", help="Print the JSON document (schema promptpath.check/1).")
    ] = False
    junit: Annotated[Text, Option("--junit", metavar="FILE", help="Write JUnit XML to FILE.")] = (
        None
    )
    sarif: Annotated[Text, Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0 to FILE.")] = (
        None
    )
    markdown: Annotated[
        Text, Option("--markdown", metavar="FILE", help="Write a job summary to FILE.")
    ] = None
