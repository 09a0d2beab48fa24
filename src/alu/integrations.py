"""A defence, or any classifier, in other tools, one function for each; adversarial images in RobustBench's layout.

A tool is imported only when its function is called.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from alu.attacks.autoattack import fit_classes
from alu.attacks.borrowed import borrow
from alu.check import check_images, check_labels
from alu.errors import StorageError
from alu.storage import explained, replacing
from alu.threat import ThreatModel

__all__ = ["export", "load", "to_art", "to_autoattack", "to_foolbox"]


def to_foolbox(model: nn.Module) -> Any:
    """A `foolbox.PyTorchModel` of the model, in eval mode, with bounds (0, 1), on the device of its weights.

    Foolbox gets logits, in which a rejection does not show (`alu.attacks.HopSkipJump` knows of rejections), and the
    gradient of `grad_mode`.

    Parameters
    ----------
    model
        A defence or any classifier.

    Examples
    --------
    >>> logits = alu.integrations.to_foolbox(defense)(images)
    """
    library = borrow("foolbox", "to_foolbox", "attacks")
    # Without a device foolbox moves the model to the first GPU it finds.
    return library.PyTorchModel(model.eval(), bounds=(0, 1), device=_device(model))


def to_autoattack(
    model: nn.Module, threat: ThreatModel, classes: int, *, version: str = "standard", seed: int = 0
) -> Any:
    """A `pyautoattack.AutoAttack` of the model, in eval mode, with targets and losses that fit its classes.

    It reseeds the global random state and fills the parameters' gradients; `alu.attacks.AutoAttack` does neither.

    Parameters
    ----------
    model, classes
        A defence or any classifier, and its number of classes.
    threat, version, seed
        The threat model; the library's "standard", "plus" or "rand"; and its seed.

    Examples
    --------
    >>> attack = alu.integrations.to_autoattack(defense, alu.ThreatModel(), 10)
    """
    library = borrow("pyautoattack", "to_autoattack", "attacks")
    attack = library.AutoAttack(
        model.eval(), norm=threat.norm, eps=threat.eps, seed=seed, version=version, device=_device(model)
    )
    fit_classes(attack, classes)
    return attack


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
    return library.PyTorchClassifier(
        model=model, loss=nn.CrossEntropyLoss(), input_shape=shape, nb_classes=classes, clip_values=(0.0, 1.0),
        device_type="cpu" if _device(model).type == "cpu" else "gpu",
    )  # fmt: skip


def _device(model: nn.Module) -> torch.device:
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))


@contextmanager
def untouched_home() -> Iterator[None]:
    """ART creates a folder `.art` in the user's home when it is imported; give it a temporary home meanwhile."""
    if (Path.home() / ".art").exists():
        yield
        return
    with TemporaryDirectory() as folder, patch.dict(os.environ, HOME=folder):
        yield


def export(path: Path | str, images: Tensor, labels: Tensor | None = None) -> None:
    """Write images as one float32 tensor. RobustBench expects all images of the test set, in its order.

    Parameters
    ----------
    path
        The .pt file.
    images, labels
        The images [N, C, H, W], and labels for a second file beside it.

    Examples
    --------
    >>> alu.integrations.export(folder / "adversarial.pt", images, labels)
    """
    path = Path(path)
    check_images(images, "RobustBench's layout")
    files = {path: images.detach().to("cpu", torch.float32).contiguous()}
    if labels is not None:
        check_labels(labels, len(images), None, "RobustBench's layout")
        files[labels_path(path)] = labels.detach().to("cpu", torch.int64).contiguous()
    for place, tensor in files.items():
        with replacing(place) as temporary:
            # A view would take the whole storage behind it along.
            torch.save(tensor.clone(), temporary)


def load(path: Path | str) -> tuple[Tensor, Tensor | None]:
    """The images and, if they were written, the labels; no code in the files is run.

    Parameters
    ----------
    path
        The .pt file that `export` wrote.

    Examples
    --------
    >>> alu.integrations.export(folder / "images.pt", images, labels)
    >>> again, its_labels = alu.integrations.load(folder / "images.pt")
    """
    path = Path(path)
    images = _tensor(path)
    check_images(images, str(path))
    labels = _tensor(labels_path(path)) if labels_path(path).exists() else None
    if labels is not None:
        check_labels(labels, len(images), None, str(labels_path(path)))
    return images, labels


def labels_path(path: Path) -> Path:
    """The path of the labels of these images."""
    return path.with_name(f"{path.stem}-labels{path.suffix}")


def _tensor(path: Path) -> Tensor:
    with explained(path, "read"):
        try:
            tensor = torch.load(path, map_location="cpu", weights_only=True)
        except OSError:
            raise
        except Exception as error:
            raise StorageError(
                f"{path} is not a tensor saved by torch.save. Write it with alu.integrations.export."
            ) from error
    if not isinstance(tensor, Tensor):
        raise StorageError(
            f"{path} holds {type(tensor).__name__}, not one tensor. Write it with alu.integrations.export."
        )
    return tensor
