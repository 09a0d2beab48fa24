"""The application: what the service answers at which address."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

import alu
from alu.serve.answers import DecideAnswer, ProblemAnswer
from alu.serve.docs import DECIDE, docs_page
from alu.serve.gate import Gate, Receive, Scope
from alu.serve.metrics import CONTENT_TYPE
from alu.serve.monitoring import Monitoring
from alu.serve.page import add_page
from alu.serve.problems import MEDIA_TYPE, Refused
from alu.serve.service import Service

BINS = 40
PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {"model": ProblemAnswer, "description": "Why the request was refused.", "content": {MEDIA_TYPE: {}}}
}


def build(service: Service, key: str | None = None, playground: bool = False) -> Gate:
    """The whole application, behind its gate; `playground` lets visitors of the page attack pictures."""
    app = application(service, key is not None, playground)

    async def decide(scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        kind, length = headers.get(b"content-type", b"").decode("latin-1"), headers.get(b"content-length")
        declared = None if length is None else length.decode("latin-1")
        try:
            return await service.decide(receive, kind, declared, scope["query_string"], scope["request_id"])
        except Refused:
            raise
        except Exception as error:
            sys.stderr.write(f"alu: request {scope['request_id']} failed ({type(error).__name__}: {error}).\n")
            raise _as_refused(error) from error

    return Gate(app, decide, service.records.metrics, key, service.not_ready)


def application(service: Service, key: bool = False, playground: bool = False) -> FastAPI:
    """The routes, without the gate."""
    app = FastAPI(
        title="alu serve", version=alu.__version__, docs_url=None, redoc_url=None, responses=PROBLEMS,
        description="Decisions of a defended image classifier.",
    )  # fmt: skip
    _declared(app)
    _model(app, service)
    _monitor(app, service)
    _operations(app, service, key)
    add_page(app, service, playground)

    async def refuse(request: Request, error: Exception) -> Response:
        refused = _as_refused(error)
        service.records.metrics.refusals.labels(refused.cause).inc()
        headers = {name.decode(): value.decode() for name, value in refused.headers()}
        return Response(refused.body(request.scope["request_id"]), refused.status, headers)

    for kind in (Refused, HTTPException, Exception):
        app.add_exception_handler(kind, refuse)
    return app


def _declared(app: FastAPI) -> None:
    """What /docs says of the address that the gate answers itself: FastAPI would take a good part of the time that a
    small picture takes."""

    @app.post("/v1/decide", response_model=DecideAnswer, openapi_extra=DECIDE, tags=["decisions"])
    async def decide() -> None:
        """Label, flag, state and p-value of one picture or several.

        Send a picture as it is, files as multipart/form-data, or JSON with base64. All pictures of a request are
        answered, or none: a picture that cannot be read is named in the problem answer.
        """


def _model(app: FastAPI, service: Service) -> None:
    @app.get("/v1/model", tags=["decisions"])
    async def model() -> Response:
        """What is served: its classes, the size of its pictures, its settings, and how clean scores are spread."""
        engine = service.ready_engine()
        histogram = None
        if engine.clean_scores is not None:
            counts, edges = np.histogram(engine.clean_scores, BINS)
            histogram = {"counts": counts.tolist(), "edges": [round(float(edge), 6) for edge in edges]}
        limits = service.limits
        return _json(
            {
                "name": engine.name, "model": engine.model, "calibration": engine.calibration,
                "shape": list(engine.shape), "classes": list(engine.classes), "settings": engine.facts,
                "resize": service.settings.resize, "purified": engine.can_purify, "clean_scores": histogram,
                "limits": {"body": limits.body, "pictures": limits.pictures, "pixels": limits.pixels},
            }
        )  # fmt: skip


def _monitor(app: FastAPI, service: Service) -> None:
    def monitoring() -> Monitoring:
        service.ready_engine()
        assert service.records.monitoring is not None
        return service.records.monitoring

    @app.get("/v1/monitor", tags=["monitor"])
    async def monitor() -> Response:
        """Whether pictures have changed: the evidence so far and for the last pictures, the alarm, and rates."""
        return _json(monitoring().report())

    @app.post("/v1/monitor/reset", tags=["monitor"])
    async def reset() -> Response:
        """Begin again with the clean scores alone, as after an alarm whose reason is known."""
        if monitoring().monitor is None:
            raise Refused("monitor-off", monitoring().why_off)
        monitoring().reset()
        await asyncio.to_thread(service.records.save)
        return _json(monitoring().report())


def _operations(app: FastAPI, service: Service, key: bool) -> None:
    @app.get("/healthz", tags=["operations"])
    async def healthz() -> Response:
        """The process lives."""
        return _json({"alive": True})

    @app.get("/readyz", tags=["operations"])
    async def readyz() -> Response:
        """Requests are taken: the defence is loaded, and there is room in the queue."""
        if (refused := service.not_ready()) is not None:
            raise refused
        return _json({"ready": True})

    @app.get("/metrics", tags=["operations"])
    async def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(service.records.metrics.text(), media_type=CONTENT_TYPE)

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> Response:
        base = str(request.base_url).rstrip("/")
        return Response(docs_page(app.openapi(), service, base, key), media_type="text/html")


def _json(plain: dict[str, Any]) -> Response:
    return Response(json.dumps(plain, allow_nan=False), media_type="application/json")


def _as_refused(error: Exception) -> Refused:
    if isinstance(error, Refused):
        return error
    if not isinstance(error, HTTPException):
        return Refused("failed", "The service failed unexpectedly. Its log has the reason.")
    if error.status_code == 405:
        return Refused("wrong-method", "See /docs for what can be asked, and how.")
    return Refused("not-found", "See /docs for what can be asked.")
