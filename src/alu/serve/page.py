"""The page at /: its files, pictures to begin with, and attacks that a visitor may try."""

from __future__ import annotations

import asyncio
import base64
import binascii
import copy
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response

from alu.decoding import Pixels, fitted
from alu.errors import AluError
from alu.serve.answers import as_png
from alu.serve.engine import Engine
from alu.serve.problems import Refused
from alu.serve.service import SCALE, Service

TYPES = {"css": "text/css", "js": "text/javascript"}
STATIC = ("page.css", "page.js", "charts.js", "service.js")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load and ask nothing but this service."""
SAMPLES = 12
WAITING = 4
"""Attacks that may run or wait at one time; more are refused."""
SECONDS = 20.0
"""The longest time of an attack."""
FIELDS = {"picture": str, "label": int, "attack": str, "eps": int, "steps": int, "seed": int}
"""What a request for an attack holds; eps in 255ths."""
ABOUT = {
    "pgd": ("PGD", "Follows the gradient of the classifier, step by step. It does not know that there is a defence."),
    "fgsm": ("FGSM", "One large step along the gradient of the classifier."),
    "mim": ("MIM", "PGD with momentum: its pictures also fool other networks."),
    "decoy": ("decoy", "Attacks with a wrong label, so that this label's logit rises when the picture is purified."),
    "stealth": ("stealth", "Looks for a wrong answer whose suspicion score stays below the threshold."),
    "boost": ("boost", "Raises the true logit until purification lowers it most."),
    "min-max": ("min-max", "Looks for a wrong answer at every point that the check's own search visits."),
    "confident": ("confident", "Makes one wrong class as likely as it can be."),
    "stall": ("stall", "Looks for a wrong answer where the check's search gets stuck."),
}
"""The attacks of the playground: their titles, and what each does."""


def add_page(app: FastAPI, service: Service, playground: bool) -> None:
    """Add the page and what it asks for; attacks only with `playground`."""

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return Response(_file("index.html"), media_type="text/html", headers={"Content-Security-Policy": POLICY})

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        if name not in (*STATIC, "style.css"):
            raise Refused("not-found", "See /docs for what can be asked.")
        return Response(_file(name), media_type=TYPES[name.rpartition(".")[2]])

    @app.get("/v1/samples", tags=["page"])
    async def samples() -> Response:
        """Some pictures to begin with, where the defence answers the classes of the bundled ones."""
        engine = _loaded(service)
        found = await asyncio.get_running_loop().run_in_executor(None, _samples, engine.shape, engine.classes)
        return _json({"samples": found})

    @app.get("/v1/playground", tags=["page"])
    async def offered() -> Response:
        """Which attacks can be tried here."""
        defense = getattr(_loaded(service), "defense", None) if playground else None
        return _json({"on": defense is not None, "attacks": [] if defense is None else _offered(defense)})

    if playground:
        _attacks(app, service)


def _attacks(app: FastAPI, service: Service) -> None:
    pool, waiting = ThreadPoolExecutor(1, "alu-playground"), set[str]()

    @app.post("/v1/attack", tags=["page"])
    async def attack(request: Request) -> Response:
        """Attack one picture and say what became of it, step by step; for the page. JSON with picture (base64), label,
        attack, eps (in 255ths), steps and seed."""
        engine, number = _loaded(service), request.scope["request_id"]
        if len(waiting) >= WAITING:
            raise Refused("queue-full", "Others are attacking. Try again soon.", retry_after=5)
        waiting.add(number)
        try:
            body = await service.intake.read(request.receive, request.headers.get("content-length"))
            try:
                wanted = _wanted(body)
                pixels = _picture(wanted.pop("picture"), engine, service)
            finally:
                service.intake.free(body)
            return _json(await asyncio.get_running_loop().run_in_executor(pool, _attacked, engine, pixels, wanted))
        except AluError as error:
            raise Refused("bad-request", str(error)) from error
        finally:
            waiting.discard(number)


def _wanted(body: bytes) -> dict[str, Any]:
    """The fields of a request for an attack, each of its type."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused("bad-request", "The body cannot be read as JSON.") from error
    names = ", ".join(FIELDS)
    if not isinstance(given, dict) or set(given) != set(FIELDS):
        raise Refused("bad-request", f"An attack is asked for with a JSON object of exactly {names}.")
    for name, kind in FIELDS.items():
        if type(given[name]) is not kind:
            raise Refused("bad-request", f"{name} must be {'text' if kind is str else 'a whole number'}.")
    if not -(2**63) <= given["seed"] < 2**63:
        raise Refused("bad-request", "seed must be a number of at most 64 bits.")
    return given


def _picture(text: str, engine: Engine, service: Service) -> Pixels:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused("bad-picture", "The picture is not valid base64. Encode the bytes of the file.") from error
    try:
        return fitted(content, "The picture", engine.shape, service.settings.resize, SCALE, service.limits.pixels)
    except AluError as error:
        raise Refused("bad-picture", str(error)) from error


def _attacked(engine: Engine, pixels: Pixels, wanted: dict[str, Any]) -> dict[str, Any]:
    """In the playground's thread: the attack as plain values."""
    import torch

    from alu.data import as_images
    from alu.serve.playground import show

    defense = _own_copy(engine.defense)  # type: ignore[attr-defined]
    picture = as_images(torch.from_numpy(pixels)[None])[0].to(next(defense.parameters()).device)
    shown = show(defense, picture, **{**wanted, "eps": wanted["eps"] / 255}, seconds=SECONDS)
    return {
        "label": wanted["label"],
        "frames": [
            {"step": frame.step, "picture": _png(frame.picture), "logits": frame.logits} for frame in shown.frames
        ],
        "picture": _png(shown.picture),
        "logits": shown.logits,
        "purified": _png(shown.purified) if shown.purified.shape == shown.picture.shape else None,
        "searches": shown.searches,
        "finished": shown.finished,
        "seconds": shown.seconds,
        "answers": {who: asdict(answer) for who, answer in shown.answers.items()},
    }


def _png(picture: Any) -> str:
    return as_png(picture.clamp(0, 1).cpu().numpy())


@cache
def _own_copy(defense: Any) -> Any:
    """A copy of the defence for this thread: the other one answers requests meanwhile."""
    return copy.deepcopy(defense)


def _offered(defense: Any) -> list[dict[str, str]]:
    from alu.serve.playground import OBLIVIOUS, attacks_on

    return [
        {
            "name": name, "title": ABOUT[name][0], "about": ABOUT[name][1],
            "knowledge": "oblivious" if name in OBLIVIOUS else "adaptive",
        }
        for name in attacks_on(defense)
    ]  # fmt: skip


@cache
def _samples(shape: tuple[int, ...], classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """Bundled test pictures, one of each class first; none if this defence reads others."""
    try:
        from alu import data
    except ImportError:  # without torch
        return []
    bundled = data.sample("test")
    if tuple(bundled.shape) != shape or tuple(bundled.classes) != classes:
        return []
    labels = bundled.labels.tolist()
    firsts = [labels.index(label) for label in range(len(classes))]
    chosen = [*firsts, *(place for place in range(len(labels)) if place not in firsts)][:SAMPLES]
    return [
        {
            "number": place, "label": labels[place], "class": classes[labels[place]],
            "picture": as_png(bundled.images[place].numpy()),
        }
        for place in chosen
    ]  # fmt: skip


def _loaded(service: Service) -> Engine:
    if service.batcher.engine is None:
        raise Refused("loading", "The defence is being loaded. Try again soon.", retry_after=2)
    return service.batcher.engine


@cache
def _file(name: str) -> str:
    """A file of the page; its colours are those of all pages."""
    folder = files("alu.report") if name == "style.css" else files("alu.serve") / "static"
    return (folder / name).read_text(encoding="utf-8")


def _json(plain: dict[str, Any]) -> Response:
    return Response(json.dumps(plain, allow_nan=False), media_type="application/json")
