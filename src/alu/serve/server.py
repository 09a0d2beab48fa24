"""The server: a socket, uvicorn, limits on connections and headers, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from alu.errors import StorageError
from alu.serve.limits import Limits

IDLE = 30
"""Seconds that a connection may be silent between two requests."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """uvicorn's protocol with limits: on connections, on the size of headers, and on how slowly a request may come."""

    class Limited(HttpToolsProtocol):
        deadline: asyncio.TimerHandle | None = None
        header_bytes = 0
        in_header = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.abort()
                return
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
                    self._too_long()

        def on_message_begin(self) -> None:
            self.in_header, self.header_bytes = True, 0
            self._expect()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self.in_header = False
            if sum(len(name) + len(value) for name, value in self.headers) + len(self.url) > limits.headers:
                self._too_long()
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
            """A whole request must come before the deadline; the application answers slow bodies before that."""
            self._met()
            self.deadline = self.loop.call_later(limits.receiving + 5.0, self.transport.abort)

        def _met(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

        def _too_long(self) -> None:
            if not self.transport.is_closing():
                self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n")
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
        raise StorageError(
            f"Cannot listen on {host} port {port}: {error.strerror or error}. Choose another --port or --host."
        ) from error


def server(app: Callable[..., Any], limits: Limits) -> Server:
    """A server for this application; `run(sockets=[...])` serves until it is told to end."""
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # a malformed request is the sender's affair
    config = uvicorn.Config(
        app, http=protocol(limits), ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        proxy_headers=False, timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=int(limits.seconds + limits.receiving + 10),
    )  # fmt: skip
    return Server(config)
