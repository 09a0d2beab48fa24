"""Adversarial images in the layout that RobustBench takes: one .pt file with one tensor."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from alu.check import check_images, check_labels
from alu.errors import StorageError
from alu.storage import explained, replacing


def export(path: Path | str, images: Tensor, labels: Tensor | None = None) -> None:
    """Write float32 images [N, C, H, W] in the order of the test set; labels, if given, go into a file beside it.

    RobustBench asks for all images of the test set and takes the labels from there.
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
    """The images and, where they were written, the labels; nothing in the files is run."""
    path = Path(path)
    images = _tensor(path)
    check_images(images, str(path))
    labels = _tensor(labels_path(path)) if labels_path(path).exists() else None
    if labels is not None:
        check_labels(labels, len(images), None, str(labels_path(path)))
    return images, labels


def labels_path(path: Path) -> Path:
    """Where the labels of these images lie."""
    return path.with_name(f"{path.stem}-labels{path.suffix}")


def _tensor(path: Path) -> Tensor:
    with explained(path, "read"):
        try:
            found = torch.load(path, map_location="cpu", weights_only=True)
        except OSError:
            raise
        except Exception as error:
            raise StorageError(f"{path} is not a tensor that torch.save wrote. Write it with export.") from error
    if not isinstance(found, Tensor):
        raise StorageError(f"{path} holds {type(found).__name__}, not one tensor. Write it with export.")
    return found
