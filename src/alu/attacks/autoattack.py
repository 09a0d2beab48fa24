"""APGD, FAB, Square and AutoAttack (Croce and Hein 2020) through pyautoattack."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Unpack

import torch
from torch import Tensor, nn

from alu.attacks.base import LEFT_OUT, Common
from alu.attacks.borrowed import BorrowedAttack, Listener, Predict, borrow, isolated, undisturbed, watched
from alu.attacks.copies import Redrawn
from alu.check import check_labels
from alu.errors import InputError, UsageError, check_choice

TARGETS = 9
RAND_DRAWS = 20
"""Calls behind each gradient of AutoAttack's version "rand", as the library has it."""
DLR_CLASSES = {"apgd-dlr": 3, "apgd-t": 4}
"""The fewest classes that the losses of these attacks are defined for."""


class PyAutoAttack(BorrowedAttack):
    """An attack of pyautoattack. Where it fails it returns the image itself."""

    draws: int = 1
    """Calls behind each gradient."""

    @abstractmethod
    def search(self, predict: Predict, images: Tensor, labels: Tensor, classes: int, listener: Listener) -> Tensor:
        """What the library finds; it may draw, trace and warn as it likes."""

    def run(self, model: Callable[[Tensor], Any], images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """The library's images for one batch."""
        who, listener = type(self).__name__, Listener()
        # The library asks again for another draw; a model whose draws follow the image needs another seed for that.
        asked = Redrawn(model, self.draws) if self.draws > 1 and isinstance(model, nn.Module) else model
        predict = isolated(asked, who, images.dtype)
        with undisturbed(), uncounted(self.library("checks")), torch.no_grad():
            classes = predict(images[:1]).shape[1]
            check_labels(labels, len(images), classes, who)
            # The library computes in float32 and reshapes without asking for the memory format.
            found = self.search(predict, images.float().contiguous(), labels, classes, listener)
        self.note(listener.said)
        return found.to(images.dtype)

    def library(self, part: str) -> Any:
        """A module of pyautoattack."""
        return borrow(f"pyautoattack.{part}", type(self).__name__, "attacks")

    @property
    def shared(self) -> dict[str, Any]:
        """The settings that all attacks of the library take."""
        return {"norm": self.norm, "eps": self.eps, "seed": self.seed}


class APGDCE(PyAutoAttack):
    """PGD on cross-entropy that halves its own step size; `draws` calls per gradient for a random model."""

    LOSS: ClassVar[str] = "ce"

    def __init__(self, *, steps: int = 100, restarts: int = 1, draws: int = 1, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self.steps, self.restarts, self.draws = positive(self, steps=steps, restarts=restarts, draws=draws)

    def search(self, predict: Predict, images: Tensor, labels: Tensor, classes: int, listener: Listener) -> Tensor:
        """The first success of each image."""
        attack = self.library("autopgd_base").APGDAttack(
            predict, n_iter=self.steps, n_restarts=self.restarts, eot_iter=self.draws, loss=self.LOSS,
            device=images.device, logger=listener, **self.shared,
        )  # fmt: skip
        found: Tensor = attack.perturb(images, labels)
        return found


class APGDDLR(APGDCE):
    """The same on the difference of logits ratio: a margin that does not depend on the logits' scale."""

    LOSS: ClassVar[str] = "dlr"

    def search(self, predict: Predict, images: Tensor, labels: Tensor, classes: int, listener: Listener) -> Tensor:
        """The first success of each image."""
        if classes < DLR_CLASSES["apgd-dlr"]:
            raise InputError(
                f"APGDDLR's loss compares three logits, and this model has {classes} classes. Use APGDCE or CWLinf."
            )
        return super().search(predict, images, labels, classes, listener)


class APGDT(PyAutoAttack):
    """The same on the difference of logits ratio, towards the likeliest `targets` other classes in turn."""

    def __init__(
        self, *, steps: int = 100, restarts: int = 1, targets: int = TARGETS, draws: int = 1, **common: Unpack[Common]
    ) -> None:
        super().__init__(**common)
        self.steps, self.restarts, self.draws = positive(self, steps=steps, restarts=restarts, draws=draws)
        (self.targets,) = positive(self, targets=targets)

    def search(self, predict: Predict, images: Tensor, labels: Tensor, classes: int, listener: Listener) -> Tensor:
        """The first success of each image."""
        if classes < DLR_CLASSES["apgd-t"]:
            raise InputError(
                f"APGDT's loss compares four logits, and this model has {classes} classes. Use APGDCE, FAB or CWLinf."
            )
        attack = self.library("autopgd_base").APGDAttack_targeted(
            predict, n_iter=self.steps, n_restarts=self.restarts, eot_iter=self.draws, device=images.device,
            n_target_classes=min(self.targets, classes - 1), logger=listener, **self.shared,
        )  # fmt: skip
        found: Tensor = attack.perturb(images, labels)
        return found


class FAB(PyAutoAttack):
    """The smallest change that crosses a boundary: to each of `targets` classes in turn or, with 0, to any at once."""

    def __init__(
        self, *, steps: int = 100, restarts: int = 1, targets: int = TARGETS, **common: Unpack[Common]
    ) -> None:
        super().__init__(**common)
        self.steps, self.restarts = positive(self, steps=steps, restarts=restarts)
        self.targets = targets

    def search(self, predict: Predict, images: Tensor, labels: Tensor, classes: int, listener: Listener) -> Tensor:
        """The nearest success of each image, where it lies inside the ball."""
        attack = self.library("fab_pt").FABAttack_PT(
            predict, n_iter=self.steps, n_restarts=self.restarts, targeted=self.targets > 0, device=images.device,
            n_target_classes=min(self.targets, classes - 1), **self.shared,
        )  # fmt: skip
        found: Tensor = attack.perturb(images, labels)
        return found


class Square(PyAutoAttack):
    """Random squares that raise the margin (Andriushchenko et al. 2020): asks for logits, never for a gradient."""

    def __init__(self, *, queries: int = 5000, restarts: int = 1, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self.queries, self.restarts = positive(self, queries=queries, restarts=restarts)

    def search(self, predict: Predict, images: Tensor, labels: Tensor, classes: int, listener: Listener) -> Tensor:
        """The first success of each image."""
        check_square(images, self.threat.norm)
        # The schedule stays that of 10,000 queries, as in AutoAttack, so that fewer queries are a prefix of more.
        attack = self.library("square").SquareAttack(
            predict, n_queries=self.queries, n_restarts=self.restarts, p_init=0.8, resc_schedule=False,
            device=images.device, **self.shared,
        )  # fmt: skip
        found: Tensor = attack.perturb(images, labels)
        return found


class AutoAttack(PyAutoAttack):
    """The ensemble: "standard" (APGD-CE, APGD-T, FAB-T, Square) or "rand" (APGD-CE and APGD-DLR over 20 draws).

    Each attack sees what the ones before it left, batched anew, so all images are handed over at once.
    """

    VERSIONS: ClassVar[dict[str, int]] = {"standard": 8_000, "rand": 4_000}
    """By version, about how many passes an image takes that nothing breaks."""

    def __init__(self, *, version: str = "standard", **common: Unpack[Common]) -> None:
        super().__init__(**common)
        check_choice("version", version, self.VERSIONS)
        self.version = version
        self.draws = RAND_DRAWS if version == "rand" else 1

    def batches(self, count: int) -> list[slice]:
        """All at once; the library makes the batches."""
        return [slice(0, count)] if count else []

    def search(self, predict: Predict, images: Tensor, labels: Tensor, classes: int, listener: Listener) -> Tensor:
        """For each image the first success of any attack."""
        predict = watched(predict, len(images), self.VERSIONS[self.version], self.batch_size, self.told)
        attack = self.library("autoattack").AutoAttack(
            predict, version=self.version, device=images.device, **self.shared
        )
        attack.logger = attack.apgd.logger = attack.apgd_targeted.logger = listener
        for name in fit_classes(attack, classes):
            listener.warning(f"{LEFT_OUT}{name}: its loss needs {DLR_CLASSES[name]} classes, here are {classes}.")
        if "square" in attack.attacks_to_run:
            check_square(images, self.threat.norm)
        found: Tensor = attack.run_standard_evaluation(images, labels, batch_size=self.batch_size)[0]
        return found


def fit_classes(attack: Any, classes: int) -> list[str]:
    """Make a `pyautoattack.AutoAttack` fit for few classes; returns the attacks that had to be left out."""
    attack.apgd_targeted.n_target_classes = attack.fab.n_target_classes = min(TARGETS, classes - 1)
    left_out = [name for name in attack.attacks_to_run if classes < DLR_CLASSES.get(name, 0)]
    attack.attacks_to_run = [name for name in attack.attacks_to_run if name not in left_out]
    return left_out


@contextmanager
def uncounted(checks: Any) -> Iterator[None]:
    """The counts behind the "dynamic defence" flag start at 0 and end at 0; the library never resets them."""
    for name in checks.funcs:
        checks.funcs[name] = 0
    try:
        yield
    finally:
        for name in checks.funcs:
            checks.funcs[name] = 0


def positive(attack: PyAutoAttack, **settings: int) -> tuple[int, ...]:
    """The settings, all at least 1."""
    for name, value in settings.items():
        if value < 1:
            raise UsageError(f"{type(attack).__name__} needs {name} of at least 1; it was given {value}.")
    return tuple(settings.values())


def check_square(images: Tensor, norm: str) -> None:
    """Refuse images on which the L2 squares have no size."""
    if norm == "L2" and min(images.shape[2:]) < 5:
        raise InputError(
            f"Square in L2 needs images of at least 5 x 5 pixels; these are {images.shape[2]} x {images.shape[3]}."
        )
