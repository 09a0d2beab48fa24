"""Bodies are received within limits, and what is held is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from alu.serve.limits import Intake, Limits
from alu.serve.problems import Refused

LIMITS = Limits(body=100, held=150, receiving=0.05)


def receiving(*chunks: bytes | None, last: bool = True) -> Callable[[], Awaitable[MutableMapping[str, Any]]]:
    """Chunks one after the other; None waits for ever, and without `last` the sender goes away."""
    left = list(chunks)

    async def receive() -> MutableMapping[str, Any]:
        if not left:
            return {"type": "http.disconnect"}
        chunk = left.pop(0)
        if chunk is None:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": chunk, "more_body": bool(left) or not last}

    return receive


def test_a_body_in_pieces_is_put_together_and_counted_until_it_is_freed() -> None:
    intake = Intake(LIMITS)
    body = asyncio.run(intake.read(receiving(b"ab", b"", b"cd"), None))
    assert (body, intake.held) == (b"abcd", 4)
    intake.free(body)
    assert intake.held == 0


@pytest.mark.parametrize(
    ("chunks", "declared", "last", "cause"),
    [
        ((b"x" * 60, b"x" * 41), None, True, "too-large"),
        ((b"x",), "101", True, "too-large"),
        ((b"x", None), None, True, "slow-body"),
        ((b"x" * 10,), None, False, "bad-request"),
    ],
)
def test_refusals_hold_nothing(chunks: tuple[bytes, ...], declared: str | None, last: bool, cause: str) -> None:
    intake = Intake(LIMITS)
    with pytest.raises(Refused) as refused:
        asyncio.run(intake.read(receiving(*chunks, last=last), declared))
    assert (refused.value.cause, intake.held) == (cause, 0)


def test_all_bodies_together_are_limited() -> None:
    intake = Intake(LIMITS)
    first = asyncio.run(intake.read(receiving(b"x" * 90), "90"))
    with pytest.raises(Refused) as refused:
        asyncio.run(intake.read(receiving(b"x" * 40, b"x" * 30), None))
    assert (refused.value.cause, refused.value.retry_after, intake.held) == ("memory", 1, 90)
    assert asyncio.run(intake.read(receiving(b"x" * 60), "nonsense"))
    intake.free(first)
    assert intake.held == 60
