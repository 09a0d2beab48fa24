"""Services for tests: in a thread of this process, around an engine of a few lines or a real defence."""

from __future__ import annotations

import http.client
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

from alu.decoding import Pixels
from alu.serve.app import build
from alu.serve.engine import Answers, Engine
from alu.serve.records import Records
from alu.serve.server import Server, listen, server
from alu.serve.service import Service, Settings


class Brightness(Engine):
    """An engine in NumPy: the class is the brightest channel, the score the mean brightness; dark is clean.

    `asked` holds the size of every batch; `before` is called with every batch and may wait or fail.
    """

    def __init__(self, clean: int = 99, before: Callable[[Pixels], None] = lambda pixels: None) -> None:
        self.name, self.shape, self.classes = "brightness", (3, 8, 8), ("red", "green", "blue")
        self.model, self.calibration = "m" * 64, "c" * 64
        self.clean_scores = np.linspace(0.0, 0.5, clean) if clean else None
        self.without_scores = "" if clean else "It has none."
        self.facts = {"rule": "abstain", "false_alarm": 0.05}
        self.can_purify = True
        self.asked: list[int] = []
        self.before = before

    def decide(self, pixels: Pixels, purified: bool = False) -> Answers:
        self.asked.append(len(pixels))
        self.before(pixels)
        images = pixels.astype(np.float32) / 255
        means, score = images.mean((2, 3)), images.mean((1, 2, 3)).astype(np.float64)
        if self.clean_scores is None:
            p_value = np.full(len(score), np.nan)
            score = np.full(len(score), np.nan)
        else:
            at_least = len(self.clean_scores) - np.searchsorted(self.clean_scores, score)
            p_value = (1 + at_least) / (len(self.clean_scores) + 1)
        flagged = p_value <= 0.05
        state = ["attacked" if one else "clean" for one in flagged]
        shown = 1 - images if purified else None
        return Answers(means.argmax(1), ~flagged, flagged, state, score, p_value, means, 2 * means, shown)


def picture(red: int = 0, green: int = 0, blue: int = 0, size: tuple[int, int] = (8, 8), kind: str = "PNG") -> bytes:
    """A picture of one colour, as a file."""
    file = io.BytesIO()
    Image.new("RGB", size, (red, green, blue)).save(file, kind)
    return file.getvalue()


@dataclass
class Reply:
    """An answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def cause(self) -> str:
        """Why it was refused; checks that the refusal is a problem answer in full."""
        problem = self.json
        assert self.headers["content-type"] == "application/problem+json", self
        assert problem["status"] == self.status
        assert problem["type"] == f"urn:alu:problem:{problem['cause']}"
        assert problem["request"] == self.headers["x-request-id"]
        assert problem["title"].endswith(".")
        assert problem["detail"].endswith((".", ")")), problem
        return str(problem["cause"])


@dataclass
class Running:
    """A service that runs, and how to ask it."""

    port: int
    service: Service
    server: Server
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        return ask(self.port, method, path, body, {**self.headers, **(headers or {})})

    def decide(self, body: bytes, kind: str = "image/png", query: str = "", **headers: str) -> Reply:
        return self.ask("POST", f"/v1/decide{query}", body, {"Content-Type": kind, **headers})


def ask(port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def multipart(files: dict[str, bytes], mark: str = "cut-here") -> tuple[bytes, str]:
    """A body of files by name, and its content type."""
    body = b""
    for name, content in files.items():
        body += f'--{mark}\r\nContent-Disposition: form-data; name="pictures"; filename="{name}"\r\n'.encode()
        body += b"Content-Type: image/png\r\n\r\n" + content + b"\r\n"
    return body + f"--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"


@contextmanager
def running(
    load: Callable[[], Engine],
    settings: Settings | None = None,
    records: Records | None = None,
    key: str | None = None,
    ready: bool = True,
    playground: bool = False,
) -> Iterator[Running]:
    """A service on a free port of this machine, until the block ends; from the time that it is ready, or listens."""
    service = Service(load, records or Records(), settings or Settings())
    socket = listen("127.0.0.1", 0)
    ours = server(build(service, key, playground), service.limits, service.records.metrics)
    thread = threading.Thread(target=ours.run, kwargs={"sockets": [socket]})
    service.start()
    thread.start()
    try:
        loaded = (lambda: service.batcher.engine or service.batcher.failure) if ready else (lambda: True)
        wait_for(lambda: ours.started and loaded())
        if service.batcher.failure is not None:
            raise service.batcher.failure
        yield Running(socket.getsockname()[1], service, ours, {"Authorization": f"Bearer {key}"} if key else {})
    finally:
        ours.should_exit = True
        thread.join()
        service.stop()


def wait_for(what: Callable[[], object], seconds: float = 30.0) -> None:
    """Until it is so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
