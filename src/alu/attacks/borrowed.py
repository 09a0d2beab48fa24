"""Attacks of other libraries, run so that they change no global random state, tracer, gradient or log."""

from __future__ import annotations

import logging
import math
import os
import random
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alu.attacks.goals import Model, gradient_of, logits_of
from alu.errors import MissingExtraError
from alu.progress import Count

Predict = Callable[[Tensor], Tensor]
"""The function from images to logits that a library attacks."""


def borrow(package: str, who: str, extra: str) -> ModuleType:
    """The library, imported now; if it is missing, the error names the extra to install."""
    # GitPython, which foolbox imports, fails to load on a machine without git unless this is set.
    refresh = os.environ.get("GIT_PYTHON_REFRESH")
    os.environ["GIT_PYTHON_REFRESH"] = refresh or "quiet"
    try:
        with warnings.catch_warnings():
            # Our users can do nothing about the deprecations that a library uses.
            warnings.simplefilter("ignore")
            return import_module(package)
    except ModuleNotFoundError as error:
        raise MissingExtraError(who, package.partition(".")[0], extra) from error
    finally:
        if refresh is None:
            del os.environ["GIT_PYTHON_REFRESH"]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the global random states, which libraries reseed, and the tracer, which they clear."""
    tracer, plain = sys.gettrace(), random.getstate()
    array = np.random.get_state()  # noqa: NPY002 - the global state is theirs
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(array)  # noqa: NPY002
        sys.settrace(tracer)


class Listener(logging.Logger):
    """A logger of its own, which collects the warnings of a library."""

    def __init__(self) -> None:
        super().__init__("alu.attacks", logging.WARNING)
        self.messages: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        """Keep the message."""
        self.messages.append(record.getMessage())


class _Isolated(torch.autograd.Function):
    """A model's logits whose backward pass reaches the images and nothing else."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, model: Model, who: str, dtype: torch.dtype) -> Tensor:
        with torch.enable_grad():
            ctx.images, ctx.who = images.detach().requires_grad_(True), who
            ctx.logits = logits_of(model, ctx.images.to(dtype)).float()
        if not ctx.logits.requires_grad:
            gradient_of(ctx.logits.sum(), ctx.images, who)  # raises the error
        return ctx.logits.detach().clone()  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.enable_grad():
            along = (ctx.logits * grads[0]).sum()
        # FAB needs the gradient of each class in turn.
        return gradient_of(along, ctx.images, ctx.who, keep_graph=True), None, None, None


RECENT = 500
"""The number of recent calls from which the number of images still under attack is estimated."""


def with_progress(predict: Predict, count: int, passes: int, batch: int, progress: Count | None) -> Predict:
    """`predict` with a progress report: (estimated images done, `count`). The estimate assumes `passes` calls for each
    batch, of the size of recent ones; a batch shrinks when images are fooled and leave the attack."""
    calls, asked, done = passes * math.ceil(count / batch), 0, 0
    recent: deque[int] = deque(maxlen=RECENT)

    def counted(images: Tensor) -> Tensor:
        nonlocal calls, asked, done
        recent.append(len(images))
        calls, asked = calls - 1, asked + len(images)
        left = max(calls, 0) * sum(recent) / len(recent)
        done = max(done, min(count - 1, int(count * asked / (asked + left))))
        if progress is not None:
            progress(done, count)
        return predict(images)

    return counted


def isolated(model: Model, who: str, dtype: torch.dtype) -> Predict:
    """The model as pyautoattack may use it: FAB's backward() does not touch the gradients of parameters, and Square,
    which writes into the logits it is given, gets its own copy."""

    def predict(images: Tensor) -> Tensor:
        if torch.is_grad_enabled() and images.requires_grad:
            logits: Tensor = _Isolated.apply(images, model, who, dtype)  # type: ignore[no-untyped-call]
            return logits
        return logits_of(model, images.to(dtype)).float().clone()

    return predict
