"""Refused: every way in which a request can go wrong, as a problem answer (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

MEDIA_TYPE = "application/problem+json"
CAUSES = {
    "bad-request": (400, "The request cannot be understood."),
    "bad-http": (400, "This is not HTTP."),
    "long-header": (431, "The header is too long."),
    "bad-picture": (422, "A picture cannot be read."),
    "no-picture": (422, "There is no picture in the request."),
    "too-many-pictures": (413, "There are too many pictures in one request."),
    "too-large": (413, "The body is too large."),
    "unknown-type": (415, "The body is of an unknown type."),
    "slow-body": (408, "The body came too slowly."),
    "no-key": (401, "The key is missing or wrong."),
    "other-origin": (403, "The request comes from another site."),
    "not-found": (404, "There is nothing at this address."),
    "wrong-method": (405, "This address does not answer to this method."),
    "loading": (503, "The defence is being loaded."),
    "queue-full": (503, "Too many pictures are waiting."),
    "memory": (503, "Too much is being received at once."),
    "timeout": (503, "The answer took too long."),
    "stopping": (503, "The service is stopping."),
    "audit": (503, "The audit log cannot be written."),
    "monitor-off": (409, "There is no monitor."),
    "failed": (500, "The service failed."),
}
"""By cause: the status and the title of a problem answer. A cause is also the label of `alu_refusals_total`."""


@dataclass
class Refused(Exception):  # noqa: N818  (it is an answer, not a failure of the program)
    """A request that is refused: one of `CAUSES`, and a sentence on what happened and what to do.

    Parameters
    ----------
    cause
        A key of `CAUSES`.
    detail
        What was expected, what came, what to do.
    retry_after
        Seconds after which to try again.
    more
        Further members of the problem answer.
    """

    cause: str
    detail: str
    retry_after: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return CAUSES[self.cause][0]

    def headers(self) -> list[tuple[bytes, bytes]]:
        """What the answer's header needs."""
        found = [(b"content-type", MEDIA_TYPE.encode())]
        if self.retry_after is not None:
            found.append((b"retry-after", str(self.retry_after).encode()))
        if self.status == HTTPStatus.UNAUTHORIZED:
            found.append((b"www-authenticate", b'Bearer realm="alu"'))
        return found

    def body(self, request_id: str) -> bytes:
        """The answer as JSON."""
        status, title = CAUSES[self.cause]
        problem = {
            "type": f"urn:alu:problem:{self.cause}", "title": title, "status": status, "detail": self.detail,
            "cause": self.cause, "request": request_id, **self.more,
        }  # fmt: skip
        return json.dumps(problem).encode()
