"""alu serve: a defence behind HTTP."""

from __future__ import annotations

import os
import stat
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alu.cli.options import Device, Trust
from alu.cli.running import hold, refuse_unwritable, stages
from alu.errors import MissingExtraError, UsageError
from alu.storage import explained

if TYPE_CHECKING:
    from alu.serve.engine import Engine
    from alu.serve.service import Service

PACKAGES = ("fastapi", "uvicorn", "httptools", "prometheus_client")
KEY_VARIABLE = "ALU_KEY"
SHORTEST_KEY = 16
MEGABYTE = 1 << 20


def serve(
    defense: Annotated[
        str,
        typer.Argument(
            help="A saved or exported defence, a bundled one (demo, or demo@5 for 5 latent steps), module:function."
        ),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Others than this machine's own need a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8000,
    key_file: Annotated[
        Path | None, typer.Option(help=f"File with the key that senders must know; or set {KEY_VARIABLE}.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="File in which the monitor's state survives a restart.")] = None,
    audit: Annotated[Path | None, typer.Option(help="Write each decision to this file, as a line of JSON.")] = None,
    audit_megabytes: Annotated[int, typer.Option(help="Size at which the audit log is rotated.", min=1)] = 100,
    audit_keep: Annotated[int, typer.Option(help="Older audit logs that are kept.", min=0)] = 10,
    alarm: Annotated[float, typer.Option(help="Evidence at which the monitor raises its alarm.")] = 100.0,
    playground: Annotated[
        bool, typer.Option("--playground", help="Let visitors of the page attack pictures, one at a time.")
    ] = False,
    resize: Annotated[
        bool, typer.Option("--resize", help="Scale pictures to the size that the defence reads.")
    ] = False,
    batch_size: Annotated[int, typer.Option(help="At most this many pictures at once.", min=1)] = 64,
    queue: Annotated[int, typer.Option(help="At most this many pictures waiting; more are answered 503.", min=1)] = 512,
    patience: Annotated[
        float, typer.Option(help="Seconds of waiting above which requests are answered 503.", min=0)
    ] = 0.5,
    max_megabytes: Annotated[int, typer.Option(help="Size of a request.", min=1)] = 16,
    max_pictures: Annotated[int, typer.Option(help="Pictures in a request.", min=1)] = 64,
    max_pixels: Annotated[int, typer.Option(help="Pixels of a picture.", min=1)] = 16_000_000,
    timeout: Annotated[float, typer.Option(help="Seconds until a request is given up.", min=0.1)] = 30.0,
    classifier: Annotated[
        str | None, typer.Option(help="module:function that returns your classifier, if it is not the recorded one.")
    ] = None,
    trust: Trust = False,
    device: Device = "cpu",
) -> None:
    """Answer pictures over HTTP: POST /v1/decide. See /docs on the running service, and docs/deploy.md.

    SIGTERM or Ctrl-C: no more requests are taken, those that were are answered, and the exit code is 0.
    """
    for package in PACKAGES:
        if find_spec(package) is None:
            raise MissingExtraError("alu serve", package, "serve")
    key = read_key(key_file)
    refuse_open_door(host, key)
    for place, option in ((state, "--state"), (audit, "--audit")):
        if place is not None:
            refuse_unwritable(place, option)
            hold(place)
    from alu.exported import is_export
    from alu.serve.audit import AuditLog
    from alu.serve.batching import StoppedError
    from alu.serve.limits import Limits
    from alu.serve.records import Records
    from alu.serve.service import Service, Settings

    log = None if audit is None else AuditLog(audit, audit_megabytes * MEGABYTE, audit_keep)
    if log is not None and log.repaired:
        sys.stderr.write(f"alu: warning: the last line of {audit} was torn and has been cut off.\n")
    body = max_megabytes * MEGABYTE
    limits = Limits(body, max(4 * body, Limits.held), max_pictures, max_pixels, timeout)
    settings = Settings(limits, batch_size, queue, patience, resize=resize)

    def load() -> Engine:
        if is_export(Path(defense)):
            from alu.serve.exports import ExportedEngine, refuse_settings

            refuse_settings(Path(defense), classifier, device)
            return ExportedEngine(Path(defense))
        from alu.serve.defended import load_engine

        with stages() as watch:

            def going(what: str, done: int, total: int) -> None:
                if service.batcher.stopping:
                    raise StoppedError
                watch(what, done, total)

            return load_engine(defense, classifier, trust, device, going)

    service = Service(load, Records(alarm, state, log), settings)
    _run(service, host, port, key, playground)


def _run(service: Service, host: str, port: int, key: str | None, playground: bool) -> None:
    """Serve until told to end."""
    from PIL import Image
    from prometheus_client import disable_created_metrics

    from alu.serve.app import build
    from alu.serve.batching import StoppedError
    from alu.serve.server import listen, server

    disable_created_metrics()  # type: ignore[no-untyped-call]
    socket = listen(host, port)
    running = server(build(service, key, playground), service.limits, service.records.metrics)
    address = socket.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]

    def loaded(failure: BaseException | None) -> None:
        if failure is None:
            # Some formats hold a second picture inside, which Pillow compares with this number before it decodes it.
            # Our own files, which may be larger, have been read by now.
            Image.MAX_IMAGE_PIXELS = service.limits.pixels
            sys.stderr.write(
                f"alu: ready, listening on http://{shown}:{address[1]} (page at /, documentation at /docs)\n"
            )
        else:
            running.should_exit = True

    service.batcher.loaded = loaded
    service.start()
    try:
        running.run(sockets=[socket])
    finally:
        service.stop()
    failure = service.batcher.failure
    if failure is not None and not isinstance(failure, StoppedError):
        raise failure


def read_key(file: Path | None) -> str | None:
    """The key from a file or from the environment; None if there is none."""
    if file is None:
        key, where = os.environ.get(KEY_VARIABLE, ""), KEY_VARIABLE
        if not key:
            return None
    else:
        with explained(file, "read"):
            key, where = file.read_text(errors="replace").strip(), str(file)
            if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                sys.stderr.write(f"alu: warning: others may read {file}. Run: chmod 600 {file}\n")
    if len(key) < SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            f"The key in {where} must have at least {SHORTEST_KEY} letters, digits or signs and no spaces. Make one "
            "with: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    return key


def refuse_open_door(host: str, key: str | None) -> None:
    """Without a key, only this machine may ask."""
    from alu.serve.gate import is_loopback

    if key is None and not is_loopback(host):
        raise UsageError(
            f"--host {host} can be reached from other machines, and there is no key. Give --key-file or set "
            f"{KEY_VARIABLE}, or listen on 127.0.0.1."
        )
