"""The gate that every request passes: its number, the key, where it comes from; and what became of it is counted."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import lru_cache
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from alu.serve.metrics import Metrics
from alu.serve.problems import Refused

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Decide = Callable[[Scope, dict[bytes, bytes], Receive], Awaitable[bytes]]
PLAIN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
DECIDE = "/v1/decide"
COUNTED = {DECIDE, "/v1/model", "/v1/monitor", "/v1/monitor/reset", "/healthz", "/readyz", "/metrics", "/docs"}
"""Addresses that are counted each by itself: any other would let a sender make up as many as they like."""
GUARDED = ("/v1/", "/metrics")
"""Where a key is asked for; health, documentation and the page itself say nothing about pictures."""


AT_ONCE = 50
"""Refusals in a second that are told at once."""
HELD_BACK = 0.2
"""Seconds that further ones wait: a sender that asks again at once, without end, would take the processor from the
pictures that were admitted."""


class Flood:
    """Counts refusals by the second."""

    def __init__(self) -> None:
        self.second, self.count = 0, 0

    def rising(self) -> bool:
        """Count one more; whether there were many in this second."""
        now = int(time.monotonic())
        self.second, self.count = now, (self.count + 1 if now == self.second else 1)
        return self.count > AT_ONCE


class Gate:
    """Around the application.

    Parameters
    ----------
    app
        What answers everything but requests for decisions.
    decide
        The answer to a request for decisions, given its scope, its headers and what receives its body.
    metrics
        Where requests are counted.
    key
        What a sender must know; None if everybody on this machine may ask.
    busy
        Why no decision can be asked for at the moment, if so. It is told here, before a body is read: refusing must
        cost little.
    """

    def __init__(
        self, app: App, decide: Decide, metrics: Metrics, key: str | None, busy: Callable[[], Refused | None]
    ) -> None:
        self.app, self._decide, self.metrics, self._busy, self._flood = app, decide, metrics, busy, Flood()
        self._key = None if key is None else _digest(key.encode())
        self._numbers = request_ids()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = time.perf_counter()
        path, headers = scope["path"], dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given.decode() if PLAIN_ID.fullmatch(given) else next(self._numbers)
        scope["request_id"] = request_id

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.metrics.requests.labels(path if path in COUNTED else "other", message["status"]).inc()
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode()), *SAFE]
                if path == DECIDE:
                    self.metrics.answer_time.observe(time.perf_counter() - begun)
            await send(message)

        try:
            self._check(path, headers)
            if path == DECIDE and scope["method"] == "POST":
                if (refused := self._busy()) is not None:
                    if self._flood.rising():
                        await asyncio.sleep(HELD_BACK)
                    raise refused
                await _send(200, [JSON], await self._decide(scope, headers, receive), counted)
                return
        except Refused as refused:
            await answer(refused, request_id, self.metrics, counted)
            return
        await self.app(scope, receive, counted)

    def _check(self, path: str, headers: dict[bytes, bytes]) -> None:
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        # A page on another site can make a browser send requests here: told by its origin, or by a host name that it
        # has had resolved to this machine.
        if origin is not None and urlsplit(origin).netloc != host:
            raise Refused("other-origin", "A page of another site may not use this service.")
        if self._key is None:
            if not _is_here(host):
                raise Refused("other-origin", "Without a key, this service answers only to localhost and 127.0.0.1.")
        elif path.startswith(GUARDED):
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            # Digests are compared, so that not even the length of the key can be told from the time this takes.
            same = hmac.compare_digest(_digest(given.strip()), self._key)
            if scheme.lower() != b"bearer" or not same:
                raise Refused("no-key", "Send the key in the header: Authorization: Bearer KEY.")


JSON = (b"content-type", b"application/json")
SAFE = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))


async def answer(refused: Refused, request_id: str, metrics: Metrics, send: Send) -> None:
    """Send a problem answer, and count its cause."""
    metrics.refusals.labels(refused.cause).inc()
    await _send(refused.status, refused.headers(), refused.body(request_id), send)


async def _send(status: int, headers: list[tuple[bytes, bytes]], body: bytes, send: Send) -> None:
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_loopback(host: str) -> bool:
    """Whether a name or address is this machine's own, which no other can reach."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def request_ids() -> Iterator[str]:
    """Numbers that no two requests share, nor two runs of a service. Counted, not drawn: asking the system for random
    bytes lets other threads go first, each time."""
    begun = secrets.token_hex(4)
    return (f"{begun}{number:08x}" for number in count())


@lru_cache(maxsize=64)
def _is_here(host: bytes) -> bool:
    """Whether a host header names this machine's own address."""
    try:
        name = urlsplit(b"//" + host).hostname
        return name is not None and is_loopback(name.decode())
    except (ValueError, UnicodeDecodeError):
        return False


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
