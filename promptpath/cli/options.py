"""What a person may type after each command: one frozen dataclass a command, in --help's order.

Values stay text here; `plan_builder` and the commands read them, so that every wrong one is
reported the same way. Options are declared once and composed by inheritance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from typer import Argument, Option

Text = str | None
"""An option that may be left out."""
Texts = list[str] | None
"""An option that may be repeated."""


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """Options every command has."""

    debug: Annotated[bool, Option("--debug", help="Show a traceback when something breaks.")] = (
        False
    )


@dataclass(frozen=True, kw_only=True)
class ReachOptions:
    """How to reach a host, over TCP or QUIC."""

    ipv4: Annotated[bool, Option("--ipv4", "-4", help="Dial IPv4 addresses only.")] = False
    ipv6: Annotated[bool, Option("--ipv6", "-6", help="Dial IPv6 addresses only.")] = False
    resolve: Annotated[
        Texts,
        Option("--resolve", metavar="HOST:PORT:ADDR", help="Dial ADDR for HOST:PORT (repeatable)."),
    ] = None
    resolver: Annotated[
        Text,
        Option("--resolver", metavar="ADDR[:PORT]", help="Ask this DNS server for the addresses."),
    ] = None
    source: Annotated[
        Text, Option("--source", metavar="ADDR", help="Dial from this local address.")
    ] = None
    interface: Annotated[
        Text, Option("--interface", metavar="NAME", help="Dial through this network interface.")
    ] = None
    cacert: Annotated[
        Text, Option("--cacert", metavar="FILE", help="Trust the CA certificates in FILE.")
    ] = None
    insecure: Annotated[
        bool, Option("--insecure", "-k", help="Go on when the certificate does not verify.")
    ] = False
    sni: Annotated[
        Text, Option("--sni", metavar="NAME", help='TLS server name; "" sends none.')
    ] = None
    keylog: Annotated[
        Text, Option("--keylog", metavar="FILE", help="Append TLS secrets to FILE (for Wireshark).")
    ] = None
    connect_timeout: Annotated[
        Text,
        Option(
            "--connect-timeout",
            metavar="TIME",
            help="Name resolution to the last handshake, at most (default 15s).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class DialOptions(ReachOptions):
    """How to reach the far side: common to all commands that send a request."""

    http: Annotated[
        str, Option("--http", metavar="auto|1.1|2|3|race", help="HTTP version; auto asks by ALPN.")
    ] = "auto"
    proxy: Annotated[
        str,
        Option(
            "--proxy",
            metavar="URL|env|none",
            help="Go through this proxy (http, https, socks5, socks5h); env reads HTTPS_PROXY etc.",
        ),
    ] = field(default="env", repr=False)


@dataclass(frozen=True, kw_only=True)
class QuicOptions(ProcessOptions, ReachOptions):
    """promptpath quic."""

    host: Annotated[str, Argument(metavar="HOST[:PORT]", help="Host, host:port or https URL.")]
    repeat: Annotated[
        int, Option("--repeat", metavar="N", min=1, help="Shake hands N times: median and spread.")
    ] = 1
    json: Annotated[bool, Option("--json", help="Print one JSON document.")] = False


@dataclass(frozen=True, kw_only=True)
class PromptOptions:
    """What to ask, and when to stop waiting for the answer."""

    first_token_timeout: Annotated[
        Text,
        Option(
            "--first-token-timeout",
            metavar="TIME",
            help="Last request byte to the first content, at most.",
        ),
    ] = None
    idle_timeout: Annotated[
        Text,
        Option("--idle-timeout", metavar="TIME", help="Between two pieces of content, at most."),
    ] = None
    timeout: Annotated[
        Text, Option("--timeout", metavar="TIME", help="Whole run, at most (default 300s).")
    ] = None
    max_bytes: Annotated[
        Text,
        Option("--max-bytes", metavar="SIZE", help="Response body, at most (default 256MiB)."),
    ] = None
    prompt: Annotated[Text, Option("--prompt", metavar="TEXT", help="The prompt to send.")] = field(
        default=None, repr=False
    )
    model: Annotated[
        Text, Option("--model", metavar="NAME", help="The model to ask; required for remote ones.")
    ] = None
    dialect: Annotated[
        Text,
        Option("--dialect", metavar="NAME", help="How the API speaks, when the URL does not say."),
    ] = None
    max_tokens: Annotated[
        int, Option("--max-tokens", metavar="N", min=1, help="Ask for N tokens at most.")
    ] = 128
    data: Annotated[
        Text,
        Option("--data", metavar="@FILE|-|TEXT", help="Send this body as it is, by POST."),
    ] = field(default=None, repr=False)
    curl: Annotated[
        Text, Option("--curl", metavar="'curl ...'", help="Trace this pasted curl command.")
    ] = field(default=None, repr=False)
    header: Annotated[
        Texts, Option("--header", "-H", metavar="NAME: VALUE", help="Add a header (repeatable).")
    ] = field(default=None, repr=False)
    key_env: Annotated[
        Text,
        Option("--key-env", metavar="NAME", help="The environment variable that holds the key."),
    ] = None
    accept_encoding: Annotated[
        str, Option("--accept-encoding", metavar="LIST", help="Encodings to accept, as sent.")
    ] = "identity"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How often to measure and what was promised."""

    repeat: Annotated[
        int, Option("--repeat", metavar="N", min=1, help="Measure N times: medians and spread.")
    ] = 1
    warm: Annotated[
        bool, Option("--warm", help="Send a second prompt over the same connection each time.")
    ] = False
    early_data: Annotated[
        bool,
        Option("--early-data", help="With --http 3: try a harmless GET as 0-RTT data afterwards."),
    ] = False
    budget_ttft: Annotated[
        Text,
        Option("--budget-ttft", metavar="TIME", help="Exit 1 when the first token took longer."),
    ] = None
    budget_total: Annotated[
        Text, Option("--budget-total", metavar="TIME", help="Exit 1 when the run took longer.")
    ] = None
    budget_itl_p99: Annotated[
        Text,
        Option(
            "--budget-itl-p99",
            metavar="TIME",
            help="Exit 1 when the p99 inter-token time was longer.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Where the result goes."""

    json: Annotated[bool, Option("--json", help="Print the JSON document.")] = False
    output: Annotated[
        Texts,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Also write FILE: .json, .md, .qlog, .sqlog (repeatable).",
        ),
    ] = None
    qlog_version: Annotated[
        str, Option("--qlog-version", metavar="1|0.3", help="Of .qlog files; qvis reads 0.3.")
    ] = "1"
    keep_content: Annotated[
        bool, Option("--keep-content", help="Keep prompt and answer text in the results.")
    ] = False
    no_color: Annotated[bool, Option("--no-color", help="Plain text, no live view.")] = False
    explain: Annotated[
        bool, Option("--explain", help="Say in a sentence what each hop is and what drives it.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class TraceOptions(ProcessOptions, ResultOptions, RunOptions, DialOptions, PromptOptions):
    """`promptpath trace [URL]`."""

    url: Annotated[
        Text,
        Argument(metavar="[URL]", help="What to trace; none: the bundled reference server."),
    ] = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class ExplainOptions(ProcessOptions):
    """`promptpath explain FILE`."""

    file: Annotated[
        str,
        Argument(metavar="FILE|-", help="A saved trace.json, a journal, or a stream's body."),
    ]
    content_type: Annotated[
        Text,
        Option(
            "--content-type",
            metavar="TYPE",
            help="FILE is a response body of this type, for example text/event-stream.",
        ),
    ] = None
    dialect: Annotated[
        Text, Option("--dialect", metavar="NAME", help="How the body's API speaks (else detected).")
    ] = None
    json: Annotated[bool, Option("--json", help="Print the JSON document.")] = False
    output: Annotated[
        Texts,
        Option(
            "--output", "-o", metavar="FILE", help="Also write FILE: .json, .md, .qlog, .sqlog."
        ),
    ] = None
    qlog_version: Annotated[
        str, Option("--qlog-version", metavar="1|0.3", help="Of .qlog files; qvis reads 0.3.")
    ] = "1"
    no_color: Annotated[bool, Option("--no-color", help="Plain text.")] = False


@dataclass(frozen=True, kw_only=True)
class ActiveOptions(ProcessOptions, DialOptions):
    """What the active tests have in common."""

    url: Annotated[
        str,
        Argument(metavar="URL", help="A reference server behind the boxes to test."),
    ] = field(repr=False)
    header: Annotated[
        Texts, Option("--header", "-H", metavar="NAME: VALUE", help="Add a header (repeatable).")
    ] = field(default=None, repr=False)
    json: Annotated[bool, Option("--json", help="Print the JSON document.")] = False
    output: Annotated[
        Texts,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Also write FILE: .json, .md, .qlog, .sqlog (repeatable).",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class IdleOptions(ActiveOptions):
    """`promptpath idle URL`."""

    max: Annotated[
        str,
        Option("--max", metavar="TIME", help="The longest timer to look for; it takes as long."),
    ] = "75s"


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(ActiveOptions):
    """`promptpath calibrate URL`."""


@dataclass(frozen=True, kw_only=True)
class RuleOptions(ProcessOptions):
    """`promptpath rule [CODE]`."""

    code: Annotated[Text, Argument(metavar="[CODE]", help="For example PP401; none: all.")] = None
    json: Annotated[bool, Option("--json", help="Print JSON.")] = False


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(ProcessOptions):
    """`promptpath doctor`."""

    json: Annotated[bool, Option("--json", help="Print JSON.")] = False


@dataclass(frozen=True, kw_only=True)
class TokensOptions(ProcessOptions):
    """`promptpath tokens TEXT`."""

    text: Annotated[str, Argument(metavar="TEXT|-", help="The text; - reads standard input.")]
    json: Annotated[bool, Option("--json", help="Print JSON.")] = False
