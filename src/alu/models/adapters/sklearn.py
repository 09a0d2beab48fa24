"""from_sklearn: an estimator of scikit-learn as a classifier of images; its logits are logarithms of probabilities."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from alu.errors import InputError, UsageError, check_choice
from alu.models.adapters.base import Adapter, shortened
from alu.models.adapters.probabilities import log_of
from alu.models.normalize import Constants, Normalize
from alu.rng import generator

WHO = "from_sklearn"
PROBES = 16
"""Images that an estimator is known by."""
Layout = Literal["NCHW", "NHWC"]


class SklearnClassifier(Adapter):
    """An estimator as a module without parameters; a hash of its answers to a few images stands in for weights."""

    log_probabilities = True
    answers_: Tensor

    def __init__(self, estimator: Any, shape: tuple[int, int, int], scale: float, layout: Layout, **more: Any) -> None:
        super().__init__(None, Normalize([0.0] * shape[0], [1 / scale] * shape[0]), size=shape[1:], **more)
        self.__name__ = type(estimator).__name__
        self.estimator, self.shape, self.layout = estimator, shape, layout
        self.register_buffer("answers_", self._digest(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """log p [N, classes] on the device of the images; nothing is recorded for a gradient."""
        if tuple(images.shape[1:]) != self.shape:
            expected, given = (" x ".join(map(str, shape)) for shape in (self.shape, images.shape[1:]))
            raise InputError(
                f"This estimator was fitted on images of {expected} (channels, height, width); these are {given}. "
                "Scale them, or give its shape: from_sklearn(estimator, shape=(...))."
            )
        return log_of(self._probabilities(images)).to(images.device)

    def _probabilities(self, images: Tensor) -> Tensor:
        values = self.normalize(images.detach().float())
        rows = (values.permute(0, 2, 3, 1) if self.layout == "NHWC" else values).flatten(1)
        return torch.as_tensor(self.estimator.predict_proba(rows.cpu().numpy()))

    def _digest(self) -> Tensor:
        """SHA-256 of its probabilities for fixed random images, rounded so that every machine finds the same."""
        probes = torch.rand((PROBES, *self.shape), generator=generator(0, "estimator"))
        rounded = np.round(self._probabilities(probes).double().numpy(), 4) + 0.0  # no minus before a 0
        return torch.tensor(list(hashlib.sha256(rounded.tobytes()).digest()), dtype=torch.uint8)

    def advice(self, better: Constants) -> str:
        """How the range of its values is given."""
        return (
            f"Say what white is in the values it was fitted on: from_sklearn(estimator, scale={1 / better.std[0]:g})."
        )


def from_sklearn(
    estimator: Any, *, shape: tuple[int, int, int] | None = None, scale: float = 1.0, layout: Layout = "NCHW",
    classes: Sequence[str] | None = None,
) -> Adapter:  # fmt: skip
    """A classifier of scikit-learn as a module from [0, 1] images to log-probabilities, with `size` and `classes`.

    They are logits but for a constant in each row, which detectors of logit changes would count; use
    `alu.detectors.Disagreement`, which does not see it (`alu.fit` does so by itself). It has no gradient.

    Parameters
    ----------
    estimator
        A fitted classifier with `predict_proba`, or a pipeline that ends in one; its features are pixels.
    shape
        Channels, height and width of the images; by default a square with as many values, gray if there is one.
    scale
        What white is in the values it was fitted on: 1 or, for 8-bit pictures, 255.
    layout
        The order in which an image [C, H, W] was made flat: "NCHW", or "NHWC" for [H, W, C].
    classes
        The names of its classes; those in `classes_` by default.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> estimator = LogisticRegression().fit(images.flatten(1).numpy(), [0, 1, 0, 1])
    >>> adapter = alu.models.from_sklearn(estimator, shape=(3, 32, 32))
    """
    if not callable(getattr(estimator, "predict_proba", None)):
        known = "is no fitted estimator of scikit-learn" if not hasattr(estimator, "fit") else "has no predict_proba"
        raise UsageError(
            f"{WHO}: {type(estimator).__name__} {known}, and a defence compares probabilities. Use an estimator that "
            "has them, or sklearn.calibration.CalibratedClassifierCV around this one."
        )
    labels = getattr(estimator, "classes_", None)
    count = getattr(estimator, "n_features_in_", None)
    if labels is None or count is None:
        raise UsageError(f"{WHO}: {type(estimator).__name__} is not fitted. Call its fit(values, labels) first.")
    check_choice("layout", layout, ("NCHW", "NHWC"))
    if not scale > 0:
        raise UsageError(f"{WHO} needs a scale above 0, such as 255; it was given {scale}.")
    seen = _square(int(count)) if shape is None else tuple(map(int, shape))
    if seen is None or len(seen) != 3 or math.prod(seen) != count:
        given = "no square picture has as many" if seen is None else f"shape={seen} has {math.prod(seen)}"
        raise UsageError(
            f"{WHO}: {type(estimator).__name__} was fitted on {count} values, and {given}. Give shape=(C, H, W)."
        )
    names = tuple(map(str, classes)) if classes is not None else tuple(map(str, labels))
    if len(names) != len(labels):
        raise UsageError(
            f"{WHO}: {type(estimator).__name__} knows {len(labels)} classes, but {len(names)} are named: "
            f"{shortened(names)}. Name as many, in the order of its classes_."
        )
    return SklearnClassifier(estimator, seen, scale, layout, classes=names, source=None).tried(WHO)


def _square(count: int) -> tuple[int, int, int] | None:
    """The square gray picture with so many values, or else the colour picture."""
    for channels in (1, 3):
        side = math.isqrt(count // channels)
        if channels * side * side == count:
            return channels, side, side
    return None
