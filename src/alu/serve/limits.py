"""What one request, and all together, may take: bytes, pictures, pixels, seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from alu.serve.problems import Refused

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The limits of a service.

    Parameters
    ----------
    body
        Bytes of one body.
    held
        Bytes of all bodies that are received or waiting at one time.
    pictures
        Pictures in one request.
    pixels
        Pixels of one picture; the header of a picture says how many, and it is read before anything is decoded.
    seconds
        From the end of a request to its answer.
    receiving
        Seconds from the first byte of a request to its last.
    headers
        Bytes of the header of a request.
    connections
        Connections at one time.
    """

    body: int = 16 * MEGABYTE
    held: int = 256 * MEGABYTE
    pictures: int = 64
    pixels: int = 16_000_000
    seconds: float = 30.0
    receiving: float = 20.0
    headers: int = 32_768
    connections: int = 1_000


class Intake:
    """Reads bodies and keeps count of what is held; used in the event loop alone."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.held = limits, 0

    async def read(self, receive: Receive, declared: str | None) -> bytes:
        """The whole body; `free` gives its room back. One that is too large or too slow is refused, said or unsaid."""
        most = self.limits.body
        if declared is not None and declared.isdecimal() and int(declared) > most:
            raise self._too_large()
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.limits.receiving):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused("bad-request", "The connection was closed before the body was complete.")
                    chunk = message.get("body", b"")
                    size += len(chunk)
                    self.held += len(chunk)
                    if size > most:
                        raise self._too_large()
                    if self.held > self.limits.held:
                        raise Refused("memory", "Too much is being received at once. Try again.", retry_after=1)
                    chunks.append(chunk)
                    if not message.get("more_body", False):
                        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except TimeoutError as error:
            self.held -= size
            raise Refused(
                "slow-body", f"The body was not complete after {self.limits.receiving:g} s. Send it faster, or less."
            ) from error
        except BaseException:
            self.held -= size
            raise

    def free(self, body: bytes) -> None:
        """A body is no longer held."""
        self.held -= len(body)

    def _too_large(self) -> Refused:
        return Refused(
            "too-large", f"A body may have {self.limits.body} bytes. Send fewer or smaller pictures in one request."
        )
