"""watched: see the images that gradient searches go through, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

StepWatch = Callable[[str, int, Tensor], None]
"""Called with the attack's name, the number of the step, and the images at which its gradient is taken [N, C, H, W]."""
_watch: ContextVar[StepWatch | None] = ContextVar("watch of gradient searches", default=None)


@contextmanager
def watched(watch: StepWatch) -> Iterator[None]:
    """Have every gradient search inside the block call `watch` at each of its steps, also those that an attack runs.

    Parameters
    ----------
    watch
        Called with the attack's name, the number of the step (each search begins at 0), and the images at that step.
        An error that it raises ends the attack.

    Examples
    --------
    >>> with alu.attacks.watched(lambda name, step, at: print(name, step)):
    ...     adversarial = alu.attacks.PGD(steps=1)(classifier, images, labels)
    PGD 0
    """
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def report(name: str, step: int, images: Tensor) -> None:
    """Tell whoever watches, if anyone does."""
    watch = _watch.get()
    if watch is not None:
        watch(name, step, images.detach())
