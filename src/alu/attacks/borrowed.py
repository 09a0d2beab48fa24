"""Attacks that other libraries run: their random draws, tracers, gradients and messages stay with them."""

from __future__ import annotations

import logging
import math
import os
import random
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from alu.attacks.base import Attack, Common, Watcher
from alu.attacks.goals import Model, gradient_of, logits_of
from alu.errors import MissingExtraError

Predict = Callable[[Tensor], Tensor]
"""What a library is given to attack."""


class BorrowedAttack(Attack):
    """An attack that another library runs. It draws for whole batches, so results belong to one batch size."""

    told: Watcher | None = None
    """Who is told how far a call has come, while it lasts."""

    def __init__(self, **common: Unpack[Common]) -> None:
        super().__init__(**common)

    def __call__(
        self,
        model: Model,
        images: Tensor,
        labels: Tensor,
        watch: Watcher | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Tensor:
        """Adversarial images, same shape; see `Attack`."""
        self.told = watch
        try:
            return super().__call__(model, images, labels, watch, numbers)
        finally:
            self.told = None


def borrow(package: str, who: str, extra: str) -> ModuleType:
    """The library, imported only now; without it, a sentence that names the extra to install."""
    # GitPython, which foolbox imports, refuses to load where there is no git unless it is told to be quiet.
    refresh = os.environ.get("GIT_PYTHON_REFRESH")
    os.environ["GIT_PYTHON_REFRESH"] = refresh or "quiet"
    try:
        with warnings.catch_warnings():
            # A library's own deprecations are nothing that a user of this one can put right.
            warnings.simplefilter("ignore")
            return import_module(package)
    except ModuleNotFoundError as error:
        raise MissingExtraError(who, package.partition(".")[0], extra) from error
    finally:
        if refresh is None:
            del os.environ["GIT_PYTHON_REFRESH"]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Global random states and the tracer are put back afterwards: libraries reseed the ones and clear the other."""
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
    """A logger that no one else hears; it collects warnings."""

    def __init__(self) -> None:
        super().__init__("alu.attacks", logging.WARNING)
        self.said: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        """Write the sentence down."""
        self.said.append(record.getMessage())


class _Isolated(torch.autograd.Function):
    """A model's logits whose backward pass reaches the images and nothing else."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, model: Model, who: str, dtype: torch.dtype) -> Tensor:
        with torch.enable_grad():
            ctx.images, ctx.who = images.detach().requires_grad_(True), who
            ctx.logits = logits_of(model, ctx.images.to(dtype)).float()
        if not ctx.logits.requires_grad:
            gradient_of(ctx.logits.sum(), ctx.images, who)  # says so in a sentence
        return ctx.logits.detach().clone()  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with torch.enable_grad():
            along = (ctx.logits * grads[0]).sum()
        # FAB asks once per class, hence `again`.
        return gradient_of(along, ctx.images, ctx.who, again=True), None, None, None


RECENT = 500
"""Calls from which the number of images that still stand is reckoned."""


def watched(predict: Predict, count: int, passes: int, batch: int, told: Watcher | None) -> Predict:
    """The same, and `told` hears how far `count` images are, in images, if each that still stands takes `passes` passes
    in batches such as the recent ones; those that fell are not waited for."""
    calls, asked, through = passes * math.ceil(count / batch), 0, 0
    recent: deque[int] = deque(maxlen=RECENT)

    def ask(images: Tensor) -> Tensor:
        nonlocal calls, asked, through
        recent.append(len(images))
        calls, asked = calls - 1, asked + len(images)
        left = max(calls, 0) * sum(recent) / len(recent)
        through = max(through, min(count - 1, int(count * asked / (asked + left))))
        if told is not None:
            told(through, count)
        return predict(images)

    return ask


def isolated(model: Model, who: str, dtype: torch.dtype) -> Predict:
    """The model as pyautoattack may use it: FAB's backward() fills no parameter's gradient, and Square, which writes
    into the logits it is given, gets its own copy."""

    def predict(images: Tensor) -> Tensor:
        if torch.is_grad_enabled() and images.requires_grad:
            logits: Tensor = _Isolated.apply(images, model, who, dtype)  # type: ignore[no-untyped-call]
            return logits
        return logits_of(model, images.to(dtype)).float().clone()

    return predict
