"""One server process from its options to its orderly end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reference_server.app import ReferenceApp, create_app
from reference_server.certificates import write_certificates
from reference_server.compute.model_file import ModelFileError
from reference_server.edge.app import EdgeApp
from reference_server.edge.balance import Backend
from reference_server.edge.replicas import ReplicaError, Replicas
from reference_server.engine.generation import EngineStartError
from reference_server.gateway.keys import KeyFileError
from reference_server.gateway.redis_client import RedisDown, where
from reference_server.listen.server import Listener, tls_context
from reference_server.options import Options
from reference_server.settings import Settings

if TYPE_CHECKING:
    from reference_server.listen.quic_setup import QuicSetup

_ORPHAN_GRACE_S = 1.0
"""Grace when standard input ends: who started this process has left, or wants it gone. A choice."""


class LaunchError(Exception):
    """The server cannot start; the text says why, for a person."""


def run(options: Options) -> None:
    """Serve until SIGTERM, SIGINT, SIGHUP or (with `stop_with_stdin`) the end of standard input.

    Raises LaunchError before anything is announced.
    """
    with tempfile.TemporaryDirectory(prefix="promptpath-serve-") as folder:
        secured = _secure(options, Path(folder)) if options.tls else _Secured()
        asyncio.run(_serve(options, secured))


@dataclass(frozen=True, slots=True)
class _Secured:
    """The certificate, made ready for both transports."""

    tls: ssl.SSLContext | None = None
    quic: QuicSetup | None = None
    ca: Path | None = None


def _secure(options: Options, folder: Path) -> _Secured:
    try:
        if options.certificate is not None and options.key is not None:
            return _load(options.certificate, options.key, options, None)
        files = write_certificates(folder, options.tls_names)
        secured = _load(str(files.certificate), str(files.key), options, files.ca)
        files.key.unlink()
    except (OSError, ValueError) as error:
        raise LaunchError(f"the certificate or its key cannot be used: {error}") from error
    return secured


def _load(certificate: str, key: str, options: Options, ca: Path | None) -> _Secured:
    listen = options.settings.listen
    tls = tls_context(certificate, key, listen)
    if not listen.http3:
        return _Secured(tls, None, ca)
    # Here, since it takes 0.1 s to import, which a server without HTTP/3 need not spend.
    from reference_server.listen.quic_setup import quic_setup

    return _Secured(tls, quic_setup(certificate, key, listen), ca)


async def _serve(options: Options, secured: _Secured) -> None:
    settings = options.settings
    app = _edge(options) if options.edge else _create(settings)
    about = await _start(app, settings)
    listener = Listener(app, settings.listen, secured.tls, quic=secured.quic)
    try:
        await listener.start()
    except OSError as error:
        await app.close()
        where = f"{settings.listen.host} port {settings.listen.port}"
        raise LaunchError(f"cannot listen on {where}: {error.strerror or error}") from error
    stop = _stop_future(options)
    _announce(options, app.model, about, listener.port, secured.ca)
    grace_s = await stop
    await listener.stop(grace_s, last_call=app.end_answers)
    await app.close()


def _create(settings: Settings) -> ReferenceApp:
    try:
        return create_app(settings)
    except KeyFileError as error:
        raise LaunchError(str(error)) from error
    except RedisDown as error:
        raise LaunchError(f"Redis cannot be used: {error}") from error
    except ModelFileError as error:
        raise LaunchError(f"the model cannot be used: {error}") from error
    except OSError as error:
        # The error names the file: a log or the keys.
        what = "read" if error.filename == settings.gateway.keys else "written"
        raise LaunchError(f"a file cannot be {what}: {error}") from error


def _edge(options: Options) -> EdgeApp:
    settings = options.settings
    gateway = settings.gateway
    limited = gateway.requests_per_minute or gateway.tokens_per_minute or gateway.keys
    if options.replicas > 1 and limited and gateway.redis is None:
        sys.stderr.write("note: each replica counts limits for itself; --redis URL shares them\n")
    backends = [
        Backend(f"replica {number}", "127.0.0.1", port=0)
        for number in range(1, options.replicas + 1)
    ]
    delay_ns = round(settings.delays.edge_ms * 1e6)
    return EdgeApp(backends, delay_ns, Replicas(options.replica_arguments))


async def _start(app: ReferenceApp | EdgeApp, settings: Settings) -> str:
    try:
        return await app.start()
    except ReplicaError as error:
        await app.close()
        raise LaunchError(str(error)) from error
    except EngineStartError as error:
        await app.close()
        raise LaunchError(f"the engine does not start: {error}") from error
    except RedisDown as error:
        await app.close()
        place = where(settings.gateway.redis or "")
        hint = "start it, or allow counting in this process: --redis-down allow-local"
        raise LaunchError(f"Redis at {place} does not answer ({error}); {hint}") from error


def _stop_future(options: Options) -> asyncio.Future[float]:
    """Done when a stop is asked for, with the grace in seconds; a second signal ends it all."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[float] = loop.create_future()

    def asked(grace_s: float) -> None:
        if not stop.done():
            stop.set_result(grace_s)
        for each in ending:
            loop.remove_signal_handler(each)

    ending = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup stays in force
        ending.append(signal.SIGHUP)
    for each in ending:
        loop.add_signal_handler(each, asked, options.settings.listen.grace_s)
    if options.stop_with_stdin:
        watch = threading.Thread(
            target=_watch_stdin, args=(loop, lambda: asked(_ORPHAN_GRACE_S)), daemon=True
        )
        watch.start()
    return stop


def _watch_stdin(loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    """Read standard input to its end; a thread, since a file or /dev/null cannot be polled."""
    with suppress(OSError):
        while os.read(0, 4096):
            pass
    with suppress(RuntimeError):  # The loop has ended already.
        loop.call_soon_threadsafe(ended)


def _engine(settings: Settings) -> str:
    """paced | model | none."""
    if not settings.api:
        return "none"
    return "paced" if settings.model is None else "model"


def _announce(options: Options, model: str, about: str, port: int, ca: Path | None) -> None:
    listen = options.settings.listen
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    url = f"{'https' if options.tls else 'http'}://{host}:{port}"
    if not options.announce:
        sys.stderr.write(f"model {model}: {about}\n" if options.settings.api else f"{about}\n")
        if options.why_paced is not None:
            sys.stderr.write(f"note: no real model: {options.why_paced}\n")
        sys.stderr.write(f"listening on {url}" + (f" (CA: {ca})\n" if ca else "\n"))
        return
    protocols = [("h2", listen.http2), ("http/1.1", listen.http1), ("h3", listen.http3)]
    line = {
        "event": "listening",
        "url": url,
        "host": listen.host,
        "port": port,
        "tls": options.tls,
        "ca": str(ca) if ca else None,
        "protocols": [name for name, wanted in protocols if wanted],
        "model": model,
        "engine": _engine(options.settings),
        "note": options.why_paced,
        "pid": os.getpid(),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
