"""The server: a socket, uvicorn, limits on connections and headers, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from alu.errors import AluError
from alu.serve.limits import Limits
from alu.serve.metrics import Metrics
from alu.serve.problems import Refused

IDLE = 30
"""Seconds that a connection may be silent between two requests."""
GRACE = 5.0
"""Seconds after which a request that is still not complete is cut off; the application answers slow bodies before."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Joined:
    """A transport that sends the header of an answer together with the beginning of its body. uvicorn writes them one
    after the other, and each write is a call of the system."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._header = transport, loop, b""

    def write(self, data: bytes) -> None:
        """Send; a header alone is kept until the body comes, or until the loop turns to something else."""
        if self._header:
            data, self._header = self._header + data, b""
        elif data.startswith(b"HTTP/1.1 ") and data.endswith(b"\r\n\r\n"):
            self._header = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._header:
            self.write(b"")

    def close(self) -> None:
        """Send what was kept, and close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def protocol(limits: Limits, metrics: Metrics) -> type[HttpToolsProtocol]:
    """uvicorn's protocol with limits: on connections, on the size of headers, and on how slowly a request may come."""

    too_long = Refused("long-header", f"A header may have {limits.headers} bytes. Send a shorter one.")

    class Limited(HttpToolsProtocol):
        deadline: asyncio.TimerHandle | None = None
        header_bytes = 0
        in_header = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(Joined(transport, self.loop))  # type: ignore[arg-type]
            if len(self.connections) > limits.connections:
                transport.abort()
                return
            # asyncio does this only for sockets that name their protocol. Without it an answer waits up to 40 ms, until
            # the client has acknowledged its header.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._expect()

        def connection_lost(self, exc: Exception | None) -> None:
            self._met()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            began_inside = self.in_header
            super().data_received(data)
            if began_inside and self.in_header:  # all of it was header
                self.header_bytes += len(data)
                if self.header_bytes > limits.headers:
                    self._refuse(too_long)

        def on_message_begin(self) -> None:
            self.in_header, self.header_bytes = True, 0
            self._expect()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self.in_header = False
            if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > limits.headers:
                self._refuse(too_long)
                return
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._met()
            if self.cycle is not None:
                super().on_message_complete()

        def on_body(self, body: bytes) -> None:
            if self.cycle is not None:
                super().on_body(body)

        def _expect(self) -> None:
            """A whole request must come before the deadline."""
            self._met()
            self.deadline = self.loop.call_later(limits.receiving + GRACE, self.transport.abort)

        def _met(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

        def send_400_response(self, msg: str) -> None:
            self._refuse(Refused("bad-http", "What came cannot be read as HTTP."))

        def _refuse(self, refused: Refused) -> None:
            """Answer without the application, which has not seen the request, and close."""
            if self.transport.is_closing():
                return
            metrics.refusals.labels(refused.cause).inc()
            request_id = secrets.token_hex(8)
            body = refused.body(request_id)
            lines = [(b"x-request-id", request_id.encode()), (b"content-length", str(len(body)).encode())]
            header = b"".join(name + b": " + value + b"\r\n" for name, value in (*refused.headers(), *lines))
            self.transport.write(STATUS_LINE[refused.status] + header + b"connection: close\r\n\r\n" + body)
            self.transport.close()

    return Limited


class Server(uvicorn.Server):
    """uvicorn's server, which ends in order on the first signal, at once on the second, and with exit code 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals end the server and are not raised again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop accepting; the second time, stop."""
        self.force_exit = self.should_exit
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise AluError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. Choose another --port or --host."
        ) from error


def server(app: Callable[..., Any], limits: Limits, metrics: Metrics) -> Server:
    """A server for this application; `run(sockets=[...])` serves until it is told to end."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a malformed request is the sender's affair
    config = uvicorn.Config(
        app, http=protocol(limits, metrics), ws="none", lifespan="off", log_config=None, access_log=False,
        server_header=False, proxy_headers=False, timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=int(limits.seconds + limits.receiving + 10),
    )  # fmt: skip
    return Server(config)
