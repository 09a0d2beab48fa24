"""Adversarial images in the layout that RobustBench takes: one .pt file with one tensor."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from alu.check import check_images, check_labels
from alu.errors import StorageError
from alu.storage import explained, replacing


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
            raise StorageError(f"{path} is not a tensor that torch.save wrote. Write it with export.") from error
    if not isinstance(tensor, Tensor):
        raise StorageError(f"{path} holds {type(tensor).__name__}, not one tensor. Write it with export.")
    return tensor
