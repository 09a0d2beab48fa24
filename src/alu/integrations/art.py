"""A defence, or any classifier, as a classifier of the Adversarial Robustness Toolbox."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from alu.attacks.borrowed import borrow


def to_art(model: nn.Module, shape: tuple[int, ...], classes: int) -> Any:
    """ART's `PyTorchClassifier` of the model, for images in [0, 1].

    ART works in NumPy, sets train and eval mode itself and fills the parameters' gradients. It gets logits, in which a
    rejection does not show.

    Parameters
    ----------
    model
        A defence or any classifier.
    shape, classes
        Channels, height and width of its images, and its number of classes.

    Examples
    --------
    >>> estimator = alu.integrations.to_art(defense, (3, 32, 32), 10)
    """
    with untouched_home():
        library = borrow("art.estimators.classification", "to_art", "art")
    device = next((weight.device.type for weight in model.parameters()), "cpu")
    return library.PyTorchClassifier(
        model=model, loss=nn.CrossEntropyLoss(), input_shape=shape, nb_classes=classes, clip_values=(0.0, 1.0),
        device_type="cpu" if device == "cpu" else "gpu",
    )  # fmt: skip


@contextmanager
def untouched_home() -> Iterator[None]:
    """ART creates a folder `.art` in the user's home when it is imported; give it a temporary home meanwhile."""
    if (Path.home() / ".art").exists():
        yield
        return
    before = os.environ.get("HOME")
    with TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["HOME"]
            else:
                os.environ["HOME"] = before
