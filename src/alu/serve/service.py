"""Service: a request's way from its body to its answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from alu.decoding import Pixels, fitted
from alu.errors import AluError, StorageError
from alu.serve.answers import as_png, extras_of, rows_of
from alu.serve.batching import Batch, Batcher, Item, Ticket
from alu.serve.bodies import Upload, Wants, uploads_in
from alu.serve.engine import Engine
from alu.serve.gathering import Gathering
from alu.serve.limits import Intake, Limits, Receive
from alu.serve.problems import Refused
from alu.serve.records import Records

SMALL = 8_192
"""Bytes of a body that is decoded in the event loop; it takes 0.05 ms."""
SCALE = "Scale it, or start the service with --resize."


@dataclass(frozen=True)
class Settings:
    """How requests are handled.

    Parameters
    ----------
    limits
        What requests may take.
    batch, queue, patience
        Pictures in a batch; pictures that may wait; seconds that one may have to wait.
    decoders
        Threads that decode pictures.
    resize
        Whether pictures of another size are scaled.
    """

    limits: Limits = field(default_factory=Limits)
    batch: int = 64
    queue: int = 512
    patience: float = 0.5
    decoders: int = 2
    resize: bool = False


@dataclass(eq=False, kw_only=True)
class Job(Ticket):
    """One request for decisions."""

    request_id: str
    wants: Wants
    future: asyncio.Future[None]
    uploads: list[Upload] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    left: int = 0
    refused: Refused | None = None


class Service:
    """Answers requests with an engine.

    Parameters
    ----------
    load
        Makes the engine; called in the thread that will use it.
    records
        What takes note of decisions.
    settings
        How to handle requests.
    """

    def __init__(self, load: Callable[[], Engine], records: Records, settings: Settings) -> None:
        self.records, self.settings, self.limits = records, settings, settings.limits
        self.intake = Intake(settings.limits)
        self._load_engine = load
        self.batcher: Batcher[Job] = Batcher(
            self._load, self._answered, settings.batch, settings.queue, settings.patience
        )
        self.gathering = Gathering(self.batcher.go)
        self._pool = ThreadPoolExecutor(settings.decoders, "alu-decode")
        self._loop: asyncio.AbstractEventLoop | None = None
        gauge = records.metrics.gauge
        gauge("alu_queue_pictures", "Pictures admitted and not yet answered.", lambda: self.batcher.admitted)
        gauge("alu_ready", "1 if requests are taken.", lambda: float(self.not_ready() is None))

    def start(self) -> None:
        """Begin to load the engine."""
        self.batcher.start()

    def stop(self) -> None:
        """Answer what was admitted, then write everything down."""
        self._pool.shutdown()
        self.batcher.stop()
        self.records.end()

    def not_ready(self) -> Refused | None:
        """Why no request is taken at the moment; None if requests are taken."""
        if self.batcher.engine is None:
            return Refused("loading", "The defence is being loaded. Try again soon.", retry_after=2)
        if self.records.audit_failure:
            return Refused("audit", self.records.audit_failure, retry_after=10)
        if self.batcher.full:
            return self.batcher.refusal()
        return None

    def ready_engine(self) -> Engine:
        """The engine; raises `Refused` while it is being loaded."""
        if self.batcher.engine is None:
            raise Refused("loading", "The defence is being loaded. Try again soon.", retry_after=2)
        return self.batcher.engine

    def _load(self) -> Engine:
        engine = self._load_engine()
        self.records.begin(engine)
        return engine

    async def decide(
        self, receive: Receive, content_type: str, content_length: str | None, query: bytes, request_id: str
    ) -> bytes:
        """The decisions on the pictures of a request, as JSON; raises `Refused`."""
        engine, wants = self.ready_engine(), Wants.of(query)
        if wants.purified and not engine.can_purify:
            raise Refused("bad-request", "This purifier makes features, not pictures. Leave purified=true out.")
        self._loop = asyncio.get_running_loop()
        body = await self.intake.read(receive, content_length)
        job = Job(request_id=request_id, wants=wants, future=self._loop.create_future())
        try:
            self.batcher.admit(job, 1)
            if self._is_small(body, content_type):
                self._prepare(job, body, content_type)
                self.gathering.note(self._loop)
            else:
                self._pool.submit(self._prepare_apart, job, body, content_type, self._loop)
            async with asyncio.timeout(self.limits.seconds):
                await job.future
        except TimeoutError as error:
            raise Refused("timeout", f"There was no answer within {self.limits.seconds:g} s.", retry_after=5) from error
        finally:
            self.batcher.leave(job)
            self.intake.free(body)
        if job.refused is not None:
            raise job.refused
        if wants.purified:  # encoding them takes time
            return await self._loop.run_in_executor(self._pool, _as_json, job, engine)
        return _as_json(job, engine)

    def _is_small(self, body: bytes, content_type: str) -> bool:
        """Whether a body is decoded in less time than it takes to hand it to a thread."""
        return len(body) <= SMALL and content_type.startswith("image/") and not self.settings.resize

    def _prepare_apart(self, job: Job, body: bytes, content_type: str, loop: asyncio.AbstractEventLoop) -> None:
        """`_prepare` in a decoding thread."""
        self._prepare(job, body, content_type)
        loop.call_soon_threadsafe(self.gathering.note, loop)

    def _prepare(self, job: Job, body: bytes, content_type: str) -> None:
        """Take the body apart, decode, and queue."""
        try:
            job.uploads = uploads_in(body, content_type, self.limits.pictures)
            self.batcher.admit(job, len(job.uploads) - 1)
            job.rows = [
                {"sha256": hashlib.sha256(upload.content).hexdigest()} if self.records.audit is not None else {}
                for upload in job.uploads
            ]
            pixels = [self._decoded(upload, place) for place, upload in enumerate(job.uploads)]
            job.left = len(pixels)
            items = [Item(one, job, place, job.wants.purified) for place, one in enumerate(pixels)]
            self.batcher.put(items, go=False)
        except Refused as refused:
            self._conclude(job, refused=refused)
        except Exception as error:
            self._conclude(job, refused=_failed(job, error))

    def _decoded(self, upload: Upload, place: int) -> Pixels:
        assert self.batcher.engine is not None
        who = f"Picture {place}" + (f" ({upload.name})" if upload.name else "")
        try:
            shape = self.batcher.engine.shape
            return fitted(upload.content, who, shape, self.settings.resize, SCALE, self.limits.pixels)
        except AluError as error:
            raise Refused("bad-picture", str(error), more={"picture": place}) from error

    def _answered(self, batch: Batch[Job]) -> None:
        """In the engine's thread: note a batch and hand its answers over."""
        engine = self.batcher.engine
        jobs = list(dict.fromkeys(item.owner for item in batch.items))
        if batch.answers is None or engine is None:
            for job in jobs:
                self._conclude(job, refused=_failed(job, batch.error))
            return
        rows = rows_of(batch.answers, engine.classes)
        entries = [
            {"request": item.owner.request_id, "picture": item.place, **item.owner.rows[item.place], **row}
            for item, row in zip(batch.items, rows, strict=True)
        ]
        try:
            self.records.log(entries)  # before the answer: what is not in the log was not answered
        except StorageError as error:
            for job in jobs:
                self._conclude(job, refused=Refused("audit", str(error), retry_after=10))
            return
        for at, (item, row) in enumerate(zip(batch.items, rows, strict=True)):
            job = item.owner
            extras = extras_of(batch.answers, at, job.wants)
            job.rows[item.place] = {"name": job.uploads[item.place].name, **row, **extras}
            job.left -= 1
        self.gathering.together = len(jobs)
        self.batcher.hold()
        self._conclude(*(job for job in jobs if not job.left))
        # After the answers are on their way: nobody waits for this.
        self.records.count(batch.answers, [batch.started - item.since for item in batch.items], batch.seconds)

    def _conclude(self, *jobs: Job, refused: Refused | None = None) -> None:
        """Wake those who wait, in the event loop."""
        assert self._loop is not None
        for job in jobs:
            job.refused = refused
        self._loop.call_soon_threadsafe(self._wake, jobs, self._loop)

    def _wake(self, jobs: tuple[Job, ...], loop: asyncio.AbstractEventLoop) -> None:
        for job in jobs:
            if not job.future.done():
                job.future.set_result(None)
        self.gathering.note(loop)


def _as_json(job: Job, engine: Engine) -> bytes:
    for row in job.rows:
        if "purified" in row:
            row["purified"] = as_png(row["purified"])
    answer = {"request": job.request_id, "model": engine.model, "calibration": engine.calibration}
    return json.dumps({**answer, "pictures": job.rows}).encode()


def _failed(job: Job, error: Exception | None) -> Refused:
    sys.stderr.write(f"alu: request {job.request_id} failed ({type(error).__name__}: {error}).\n")
    return Refused("failed", "The service could not answer. Its log has the reason under this request's number.")
