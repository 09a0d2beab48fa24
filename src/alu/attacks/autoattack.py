"""APGD, FAB, Square and AutoAttack (Croce and Hein 2020) through pyautoattack."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, Unpack

import torch
from torch import Tensor, nn

from alu.attacks.base import LEFT_OUT, Attack, Common
from alu.attacks.borrowed import Listener, Predict, borrow, isolated, undisturbed, with_progress
from alu.attacks.copies import Redrawn
from alu.attacks.goals import Model
from alu.check import check_labels
from alu.errors import InputError, UsageError, check_choice
from alu.progress import Count

Version = Literal["standard", "rand"]
TARGETS = 9
"""Classes that targeted attacks aim at, as the library has it."""
RAND_DRAWS = 20
"""Draws that each gradient of AutoAttack's version "rand" is averaged over, as the library has it."""
DLR_CLASSES = {"apgd-dlr": 3, "apgd-t": 4}
"""The smallest number of classes that the loss of each attack is defined for."""


class PyAutoAttack(Attack):
    """An attack of pyautoattack. Where it fails it returns the image itself.

    The library draws random numbers for whole batches, so results depend on the batch size.
    """

    draws: int = 1
    """Draws that each gradient is averaged over."""

    @abstractmethod
    def prepared(self, predict: Predict, images: Tensor, classes: int, listener: Listener) -> Any:
        """The library's attack on `predict`, for these images and this number of classes."""

    def search(self, attack: Any, images: Tensor, labels: Tensor) -> Tensor:
        """The library's result; global random numbers, tracer and warnings are restored around it."""
        adversarial: Tensor = attack.perturb(images, labels)
        return adversarial

    def run(self, model: Model, images: Tensor, labels: Tensor, numbers: Sequence[int]) -> Tensor:
        """The library's images for one batch."""
        who, listener = type(self).__name__, Listener()
        # The library calls again for another draw; a model whose draws depend on the image needs another seed for that.
        drawn = Redrawn(model, self.draws) if self.draws > 1 and isinstance(model, nn.Module) else model
        predict = isolated(drawn, who, images.dtype)
        with undisturbed(), uncounted(self.library("checks")), torch.no_grad():
            classes = predict(images[:1]).shape[1]
            check_labels(labels, len(images), classes, who)
            # The library computes in float32, and its reshapes need contiguous images.
            in_float32 = images.float().contiguous()
            adversarial = self.search(self.prepared(predict, in_float32, classes, listener), in_float32, labels)
        self.note(listener.messages)
        return adversarial.to(images.dtype)

    def library(self, part: str) -> Any:
        """A module of pyautoattack."""
        return borrow(f"pyautoattack.{part}", type(self).__name__, "attacks")

    @property
    def shared(self) -> dict[str, Any]:
        """The settings that all attacks of the library take."""
        return {"norm": self.norm, "eps": self.eps, "seed": self.seed}


class APGDCE(PyAutoAttack):
    """APGD (Croce and Hein 2020) on cross-entropy: PGD that chooses its own step sizes.

    Parameters
    ----------
    steps, restarts
        Steps of each search, and random starts of each image.
    draws
        How many draws of a random model each gradient is averaged over; plus those of `Attack`.

    Examples
    --------
    >>> adversarial = alu.attacks.APGDCE(steps=2)(classifier, images, labels)
    """

    LOSS: ClassVar[str] = "ce"

    def __init__(self, *, steps: int = 100, restarts: int = 1, draws: int = 1, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self.steps, self.restarts, self.draws = positive(self, steps=steps, restarts=restarts, draws=draws)

    def prepared(self, predict: Predict, images: Tensor, classes: int, listener: Listener) -> Any:
        """An attack that keeps the first success of each image."""
        return self.library("autopgd_base").APGDAttack(
            predict, n_iter=self.steps, n_restarts=self.restarts, eot_iter=self.draws, loss=self.LOSS,
            device=images.device, logger=listener, **self.shared,
        )  # fmt: skip


class APGDDLR(APGDCE):
    """APGD on the difference of logits ratio: a margin that does not depend on the scale of the logits.

    Parameters are those of `APGDCE`.

    Examples
    --------
    >>> adversarial = alu.attacks.APGDDLR(steps=2)(classifier, images, labels)
    """

    LOSS: ClassVar[str] = "dlr"

    def prepared(self, predict: Predict, images: Tensor, classes: int, listener: Listener) -> Any:
        """An attack that keeps the first success of each image."""
        if classes < DLR_CLASSES["apgd-dlr"]:
            raise InputError(
                f"APGDDLR's loss compares three logits, but this model has {classes} classes. Use APGDCE or CWLinf."
            )
        return super().prepared(predict, images, classes, listener)


class APGDT(PyAutoAttack):
    """APGD on the difference of logits ratio, aimed at the likeliest other classes in turn.

    Parameters
    ----------
    targets
        How many other classes are tried; plus those of `APGDCE`.

    Examples
    --------
    >>> adversarial = alu.attacks.APGDT(steps=2, targets=1)(classifier, images, labels)
    """

    def __init__(
        self, *, steps: int = 100, restarts: int = 1, targets: int = TARGETS, draws: int = 1, **common: Unpack[Common]
    ) -> None:
        super().__init__(**common)
        self.steps, self.restarts, self.draws = positive(self, steps=steps, restarts=restarts, draws=draws)
        (self.targets,) = positive(self, targets=targets)

    def prepared(self, predict: Predict, images: Tensor, classes: int, listener: Listener) -> Any:
        """An attack that keeps the first success of each image."""
        if classes < DLR_CLASSES["apgd-t"]:
            raise InputError(
                f"APGDT's loss compares four logits, but this model has {classes} classes. Use APGDCE, FAB or CWLinf."
            )
        return self.library("autopgd_base").APGDAttack_targeted(
            predict, n_iter=self.steps, n_restarts=self.restarts, eot_iter=self.draws, device=images.device,
            n_target_classes=min(self.targets, classes - 1), logger=listener, **self.shared,
        )  # fmt: skip


class FAB(PyAutoAttack):
    """FAB (Croce and Hein 2020): the smallest change that crosses a decision boundary.

    Parameters
    ----------
    targets
        How many of the likeliest other classes are tried in turn, or 0 for all in one search; plus those of `APGDCE`.

    Examples
    --------
    >>> adversarial = alu.attacks.FAB(steps=2, targets=1)(classifier, images, labels)
    """

    def __init__(
        self, *, steps: int = 100, restarts: int = 1, targets: int = TARGETS, **common: Unpack[Common]
    ) -> None:
        super().__init__(**common)
        self.steps, self.restarts = positive(self, steps=steps, restarts=restarts)
        self.targets = targets

    def prepared(self, predict: Predict, images: Tensor, classes: int, listener: Listener) -> Any:
        """An attack that keeps the nearest success of each image, where it lies inside the ball."""
        return self.library("fab_pt").FABAttack_PT(
            predict, n_iter=self.steps, n_restarts=self.restarts, targeted=self.targets > 0, device=images.device,
            n_target_classes=min(self.targets, classes - 1), **self.shared,
        )  # fmt: skip


class Square(PyAutoAttack):
    """Random squares that raise the margin (Andriushchenko et al. 2020): needs logits, never a gradient.

    Parameters
    ----------
    queries, restarts
        How often the model is called for each image, and how often that is repeated; plus those of `Attack`.

    Examples
    --------
    >>> adversarial = alu.attacks.Square(queries=2)(classifier, images, labels)
    """

    def __init__(self, *, queries: int = 5000, restarts: int = 1, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self.queries, self.restarts = positive(self, queries=queries, restarts=restarts)

    def prepared(self, predict: Predict, images: Tensor, classes: int, listener: Listener) -> Any:
        """An attack that keeps the first success of each image."""
        check_square(images, self.threat.norm)
        # The schedule stays that of 10,000 queries, as in AutoAttack, so that fewer queries are a prefix of more.
        return self.library("square").SquareAttack(
            predict, n_queries=self.queries, n_restarts=self.restarts, p_init=0.8, resc_schedule=False,
            device=images.device, **self.shared,
        )  # fmt: skip


class AutoAttack(PyAutoAttack):
    """The ensemble of Croce and Hein (2020). Each attack gets the images that the ones before it could not break.

    Parameters
    ----------
    version
        "standard" (APGD-CE, APGD-T, FAB-T, Square) or "rand" (APGD-CE and APGD-DLR, 20 draws for each gradient);
        plus those of `Attack`.

    Examples
    --------
    >>> adversarial = alu.attacks.AutoAttack(version="standard")(classifier, images[:1], labels[:1])
    """

    VERSIONS: ClassVar[dict[Version, int]] = {"standard": 8_000, "rand": 4_000}
    """By version, about how many passes an image takes that no attack breaks."""
    progress: Count | None = None
    """Called with images done and images in all, during a call of the attack."""

    def __init__(self, *, version: Version = "standard", **common: Unpack[Common]) -> None:
        super().__init__(**common)
        check_choice("version", version, self.VERSIONS)
        self.version = version
        self.draws = RAND_DRAWS if version == "rand" else 1

    def __call__(
        self, model: Model, images: Tensor, labels: Tensor, watch: Count | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Tensor:  # fmt: skip
        """Adversarial images, same shape; see `Attack`. `watch` is also called during the attack, with an estimate."""
        self.progress = watch
        try:
            return super().__call__(model, images, labels, watch, numbers)
        finally:
            del self.progress  # it belongs to this call

    def batches(self, count: int) -> list[slice]:
        """All images at once: the library makes new batches for each attack."""
        return [slice(0, count)] if count else []

    def prepared(self, predict: Predict, images: Tensor, classes: int, listener: Listener) -> Any:
        """All attacks of this version that the number of classes allows."""
        predict = with_progress(predict, len(images), self.VERSIONS[self.version], self.batch_size, self.progress)
        attack = self.library("autoattack").AutoAttack(
            predict, version=self.version, device=images.device, **self.shared
        )
        attack.logger = attack.apgd.logger = attack.apgd_targeted.logger = listener
        for name in fit_classes(attack, classes):
            listener.warning(f"{LEFT_OUT}{name}: its loss needs {DLR_CLASSES[name]} classes; there are {classes}.")
        if "square" in attack.attacks_to_run:
            check_square(images, self.norm)
        return attack

    def search(self, attack: Any, images: Tensor, labels: Tensor) -> Tensor:
        """For each image the first success of any attack."""
        adversarial: Tensor = attack.run_standard_evaluation(images, labels, batch_size=self.batch_size)[0]
        return adversarial


def fit_classes(attack: Any, classes: int) -> list[str]:
    """Adapt a `pyautoattack.AutoAttack` to few classes; returns the attacks that had to be left out."""
    attack.apgd_targeted.n_target_classes = attack.fab.n_target_classes = min(TARGETS, classes - 1)
    left_out = [name for name in attack.attacks_to_run if classes < DLR_CLASSES.get(name, 0)]
    attack.attacks_to_run = [name for name in attack.attacks_to_run if name not in left_out]
    return left_out


@contextmanager
def uncounted(checks: Any) -> Iterator[None]:
    """Reset the counts behind the "dynamic defence" flag before and after; the library never does."""
    zero = dict.fromkeys(checks.funcs, 0)
    checks.funcs.update(zero)
    try:
        yield
    finally:
        checks.funcs.update(zero)


def positive(attack: PyAutoAttack, **settings: int) -> tuple[int, ...]:
    """The settings, which must all be at least 1."""
    for name, value in settings.items():
        if value < 1:
            raise UsageError(f"{type(attack).__name__} needs {name} of at least 1; it was given {value}.")
    return tuple(settings.values())


def check_square(images: Tensor, norm: str) -> None:
    """Refuse images that are too small for the squares of the L2 search."""
    if norm == "L2" and min(images.shape[2:]) < 5:
        raise InputError(
            f"Square in L2 needs images of at least 5 x 5 pixels; these are {images.shape[2]} x {images.shape[3]}."
        )
