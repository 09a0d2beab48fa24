"""Answers that are known already: the searches of an attack ask about the same picture again and again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

MOST = 200_000
"""Answers that are kept; then all are forgotten, which costs time and changes nothing."""


class Memory:
    """Whether one model answers pictures wrongly, by their content and label.

    Only for a model that answers the same picture alike each time. What a result says about an attack's images never
    comes from here: that is asked again.

    Parameters
    ----------
    model
        The model whose answers are kept.

    Examples
    --------
    >>> from alu.attacks.memory import Memory
    >>> Memory(classifier).fooled(lambda at, own: classifier(at).argmax(1) != own, images, labels)
    tensor([False, False, False, False])
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.known: dict[tuple[int, bytes], bool] = {}

    def fooled(self, ask: Callable[[Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> Tensor:
        """The answer for each image [N]; `ask` is called with those that have none yet."""
        keys = list(zip(labels.tolist(), contents(images), strict=True))
        new = [place for place, key in enumerate(keys) if key not in self.known]
        if len(self.known) + len(new) > MOST:
            self.known.clear()
            new = list(range(len(keys)))
        if new or not keys:
            at = torch.tensor(new, dtype=torch.int64, device=images.device)
            found = ask(images[at], labels[at]).tolist()
            self.known.update({keys[place]: answer for place, answer in zip(new, found, strict=True)})
        return torch.tensor([self.known[key] for key in keys], dtype=torch.bool, device=images.device)


def contents(images: Tensor) -> list[bytes]:
    """A short name for the pixels of each image."""
    rows = images.detach().cpu().contiguous()
    return [hashlib.blake2b(row.numpy(), digest_size=16).digest() for row in rows]


_IN_USE: ContextVar[Memory | None] = ContextVar("memory", default=None)


def memory_of(model: Any) -> Memory | None:
    """What is kept of this very model's answers; None outside `remembering`, and for any copy of it."""
    memory = _IN_USE.get()
    return memory if memory is not None and memory.model is model else None


@contextmanager
def remembering(model: Any, steady: bool) -> Iterator[None]:
    """Keep this model's answers inside the block, if it is `steady`: it answers the same picture alike each time."""
    token = _IN_USE.set(Memory(model) if steady else None)
    try:
        yield
    finally:
        _IN_USE.reset(token)
