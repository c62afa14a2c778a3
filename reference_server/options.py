"""The command line of `python -m reference_server`."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from reference_server.edge.options import replica_arguments
from reference_server.engine.plan import BLOCK_TOKENS
from reference_server.engine_choice import Choice, ChoiceError, EngineName, choose
from reference_server.listen.options import add_quic, http3_wanted
from reference_server.settings import (
    MODEL_SLOTS,
    DelaySettings,
    EngineSettings,
    GatewaySettings,
    ListenSettings,
    ModelSettings,
    PaceSettings,
    ServiceSettings,
    SessionSettings,
    Settings,
    StreamLimits,
)

ENGINE_VARIABLE = "PROMPTPATH_ENGINE"
"""The environment variable that stands for --engine, as `make trace ENGINE=paced` sets it."""

_LONGEST_DELAY_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Options:
    """The settings, and how this process behaves."""

    settings: Settings
    tls: bool
    """Serve over TLS; with `certificate` None a throw-away CA is made."""
    certificate: str | None
    key: str | None
    tls_names: tuple[str, ...]
    announce: bool
    stop_with_stdin: bool
    why_paced: str | None
    """Why the paced engine runs although nobody asked for it; else None."""
    make_key: str | None
    """Make a key of that name in `settings.gateway.keys` instead of serving."""
    edge: bool
    """Be the edge in front of replicas instead of a server."""
    replicas: int
    replica_arguments: tuple[str, ...]
    """The command line of each."""


def parse_options(arguments: Sequence[str]) -> Options:
    """Read the command line; argparse ends the process with status 2 on wrong usage."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.engine not in get_args(EngineName):  # argparse does not look at defaults
        parser.error(f"{ENGINE_VARIABLE}: one of {', '.join(get_args(EngineName))}")
    if (given.cert is None) != (given.key is None):
        parser.error("--cert and --key belong together")
    if given.api_key_env and not os.environ.get(given.api_key_env):
        parser.error(f"the variable {given.api_key_env} of --api-key-env is not set")
    if given.replicas > 1 and not given.edge:
        parser.error("--replicas needs --edge")
    if given.make_key is not None and given.keys is None:
        parser.error("--make-key needs --keys FILE")
    try:
        choice = choose(given.engine, given.model)
    except ChoiceError as error:
        parser.error(str(error))
    names = ("localhost", "127.0.0.1", "::1", *given.tls_name)
    return Options(
        settings=_settings(given, choice),
        tls=given.tls != "off",
        certificate=given.cert,
        key=given.key,
        tls_names=names,
        announce=given.announce,
        stop_with_stdin=given.stop_with_stdin,
        why_paced=choice.why,
        make_key=given.make_key,
        edge=given.edge,
        replicas=given.replicas,
        replica_arguments=tuple(replica_arguments(arguments)),
    )


def _settings(given: argparse.Namespace, choice: Choice) -> Settings:
    key = os.environ.get(given.api_key_env) if given.api_key_env else None
    key_hash = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest() if key else None
    return Settings(
        pace=_from(PaceSettings, given),
        engine=_from(EngineSettings, given, slots=given.slots or _slots(choice)),
        service=_from(
            ServiceSettings,
            given,
            api_key_sha256=key_hash,
            model=given.model or ServiceSettings().model,
        ),
        model=None if choice.path is None else _model(given, choice.path),
        listen=_from(
            ListenSettings,
            given,
            http1=not given.http2_only,
            http2=not given.http1_only,
            http3=http3_wanted(given),
        ),
        gateway=_from(GatewaySettings, given),
        sessions=_from(SessionSettings, given),
        delays=given.delay,
        streams=_from(StreamLimits, given),
        api=given.engine != "none",
        send_log=given.send_log,
        access_log=given.access_log,
    )


def _slots(choice: Choice) -> int:
    return EngineSettings().slots if choice.path is None else MODEL_SLOTS


def _model(given: argparse.Namespace, path: str) -> ModelSettings:
    return ModelSettings(
        path=path,
        mode="exact" if given.deterministic else given.precision,
        threads=given.threads,
        kv_blocks=-(-given.kv_tokens // BLOCK_TOKENS),
        token_budget=given.token_budget,
        batching=given.batching,
        prefix_cache=not given.no_prefix_cache,
        kv_cache=not given.no_kv_cache,
    )


def _from(kind: Any, given: argparse.Namespace, **more: Any) -> Any:
    """An instance of a settings class from the options that are called like its fields."""
    names = {field.name for field in dataclasses.fields(kind)}
    values = {name: value for name, value in vars(given).items() if name in names}
    return kind(**{**values, **more})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reference_server",
        usage="%(prog)s [OPTIONS]",
        description="The reference LLM server.",
        allow_abbrev=False,  # so that the edge can tell its options from those of the replicas
    )
    _add_listen(parser)
    _add_engine(parser)
    _add_model(parser)
    _add_gateway(parser)
    _add_test_streams(parser)
    add = parser.add_argument
    add("--announce", action="store_true", help="print one JSON line on stdout when listening")
    add("--stop-with-stdin", action="store_true", help="stop when standard input is closed")
    add("--send-log", metavar="FILE", help="append a line of JSON for each event sent")
    add("--access-log", metavar="FILE", help="append a line of JSON for each request; - is stderr")
    add("--api-key-env", metavar="NAME", help="variable with the one key that may call")
    return parser


def _add_listen(parser: argparse.ArgumentParser) -> None:
    defaults = ListenSettings()
    add = parser.add_argument
    add("--host", default=defaults.host, help="address to listen on (%(default)s)")
    add("--port", type=_count(0, 65535), default=defaults.port, help="0 takes a free port")
    tls = parser.add_mutually_exclusive_group()
    tls.add_argument(
        "--tls",
        choices=("self", "off"),
        default="self",
        help="self (the default): a throw-away CA for this run",
    )
    tls.add_argument(
        "--clear-text", dest="tls", action="store_const", const="off", help="same as --tls off"
    )
    add("--cert", metavar="FILE", help="certificate chain, PEM")
    add("--key", metavar="FILE", help="its private key, PEM")
    add("--tls-name", action="append", default=[], help="a further name for the certificate")
    add("--edge", action="store_true", help="be the box in front: TLS, balancing, health checks")
    add(
        "--replicas",
        type=_count(1, 64),
        default=1,
        help="servers behind the edge, each a process (%(default)s)",
    )
    version = parser.add_mutually_exclusive_group()
    version.add_argument("--http1-only", action="store_true", help="offer no other version")
    version.add_argument("--http2-only", action="store_true", help="offer no other version")
    add_quic(parser, _number)
    add(
        "--grace-s",
        type=_number(0, 3600),
        default=defaults.grace_s,
        help="seconds that running streams get at a stop (%(default)s)",
    )


def _add_engine(parser: argparse.ArgumentParser) -> None:
    pace, engine, service = PaceSettings(), EngineSettings(), ServiceSettings()
    add = parser.add_argument
    ms = _number(0, 3_600_000)
    add(
        "--base-ms",
        type=ms,
        default=pace.base_ms,
        help="prefill time of an empty prompt (%(default)s)",
    )
    add(
        "--prefill-ms-per-token",
        type=ms,
        default=pace.prefill_ms_per_token,
        help="added for each prompt token (%(default)s)",
    )
    add(
        "--itl-ms", type=ms, default=pace.itl_ms, help="time between two decode steps (%(default)s)"
    )
    add(
        "--jitter",
        type=_number(0, 1),
        default=pace.jitter,
        help="0.1 changes each wait by up to 10 %% (%(default)s)",
    )
    add("--seed", type=int, default=pace.seed, help="seed of the jitter (%(default)s)")
    add(
        "--tokens-per-step",
        type=_count(1, 1000),
        default=pace.tokens_per_step,
        help="tokens that a step gives, one event a step (%(default)s)",
    )
    add("--answer-tokens", type=_count(1, 10**9), help="end the answer after so many tokens")
    add("--text", type=_text, default=pace.text, help="what it says, repeated until the limit")
    add(
        "--slots",
        type=_count(1, 100_000),
        help=f"requests that run at once ({engine.slots}, with a model {MODEL_SLOTS})",
    )
    add(
        "--queue-limit",
        type=_count(0, 10**6),
        default=engine.queue_limit,
        help="requests that may wait, one more is a 429 (%(default)s)",
    )
    add(
        "--queue-timeout-ms",
        type=ms,
        default=engine.queue_timeout_ms,
        help="longest wait for a slot (%(default)s)",
    )
    add(
        "--keepalive-s",
        type=_number(0.01, 3600),
        default=service.keepalive_s,
        help="a ping or comment after so long without an event (%(default)s)",
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--engine",
        choices=get_args(EngineName),
        default=os.environ.get(ENGINE_VARIABLE, "auto"),
        help="a model, or the paced engine that only spends time; none serves the test streams "
        f"alone; auto takes the model when it can run at once ({ENGINE_VARIABLE} or auto)",
    )
    add(
        "--model",
        metavar="PATH|smollm2|NAME",
        help="a GGUF file or a folder with safetensors; the default model; or a name for the "
        "paced engine",
    )
    defaults = ModelSettings("")
    add(
        "--precision",
        choices=("fast", "fp32"),
        default=defaults.mode,
        help="bfloat16 and the file's four bits, or float32 (%(default)s)",
    )
    add(
        "--deterministic",
        action="store_true",
        help="float32 in which an answer does not depend on what else runs; slow",
    )
    add("--threads", type=_count(1, 1024), help="threads that compute (cores less one)")
    add(
        "--kv-tokens",
        type=_count(BLOCK_TOKENS, 10**8),
        default=defaults.kv_blocks * BLOCK_TOKENS,
        help="tokens that the KV pool holds (%(default)s)",
    )
    add(
        "--token-budget",
        type=_count(1, 10**6),
        default=defaults.token_budget,
        help="tokens computed in one step (%(default)s)",
    )
    add(
        "--batching",
        choices=("continuous", "static"),
        default=defaults.batching,
        help="static fills a batch once and computes it to its end (%(default)s)",
    )
    add("--no-prefix-cache", action="store_true", help="compute shared prefixes again")
    add("--no-kv-cache", action="store_true", help="compute every token again in each step")


def _add_test_streams(parser: argparse.ArgumentParser) -> None:
    defaults = StreamLimits()
    add = parser.add_argument
    add(
        "--test-streams",
        type=_count(1, 10**5),
        default=defaults.test_streams,
        help="test streams at the same time, one more is a 429 (%(default)s)",
    )
    add(
        "--test-seconds",
        type=_number(1, 86_400),
        default=defaults.test_seconds,
        help="longest test stream (%(default)s)",
    )
    add(
        "--test-bytes",
        type=_count(1, 10**12),
        default=defaults.test_bytes,
        help="largest test stream (%(default)s)",
    )


def _add_gateway(parser: argparse.ArgumentParser) -> None:
    defaults = GatewaySettings()
    add = parser.add_argument
    add("--keys", metavar="FILE", help="only the keys in this file may call")
    add("--make-key", metavar="NAME", help="add a key to --keys FILE, print it once, and end")
    per_minute = _count(1, 10**12)
    add("--requests-per-minute", type=per_minute, metavar="N", help="limit of each key")
    add("--tokens-per-minute", type=per_minute, metavar="N", help="limit of each key")
    add("--redis", metavar="URL", help="share limits between processes through this Redis")
    add(
        "--redis-down",
        choices=("refuse", "allow-local"),
        default=defaults.redis_down,
        help="without Redis answer 503, or count in this process alone (%(default)s)",
    )
    add("--sessions", metavar="FILE", help="where conversations are kept (SQLite); off: nowhere")
    add(
        "--sessions-max-mb",
        type=_count(1, 10**6),
        default=SessionSettings().sessions_max_mb,
        help="largest size of that file (%(default)s)",
    )
    add(
        "--delay",
        type=_delays,
        default=DelaySettings(),
        metavar="STAGE=TIME,...",
        help="make stages longer on purpose: gateway=8ms,queue=30ms",
    )


def _delays(text: str) -> DelaySettings:
    """`queue=30ms,session=0.2s` as settings."""
    stages = [field.name.removesuffix("_ms") for field in dataclasses.fields(DelaySettings)]
    found: dict[str, float] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*([a-z]+)=([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s)\s*", part)
        if match is None or match[1] not in stages or f"{match[1]}_ms" in found:
            wanted = "STAGE=TIME with ms or s, each stage once; stages: " + ", ".join(stages)
            raise argparse.ArgumentTypeError(wanted)
        found[f"{match[1]}_ms"] = float(match[2]) * (1000 if match[3] == "s" else 1)
    if max(found.values()) > _LONGEST_DELAY_MS:
        raise argparse.ArgumentTypeError("a delay may be one hour at most")
    return DelaySettings(**found)


def _count(low: int, high: int) -> Any:
    def read(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be from {low} to {high}")
        return value

    return read


def _number(low: float, high: float) -> Any:
    def read(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be from {low:g} to {high:g}")
        return value

    return read


def _text(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("must not be empty")
    return text
