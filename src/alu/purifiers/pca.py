"""Projection onto the directions in which clean images vary most: a purifier with no generative model."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from alu.check import check_images
from alu.errors import InputError, NotFittedError, UsageError
from alu.models.cards import load
from alu.purifiers.base import Purifier

AT_ONCE = 2**24
"""Values that are worked on at once in float64, several times 128 MB."""
NOTHING = 1e-12
"""A direction with so small a part of the largest variance is rounding."""


class PCA(Purifier):
    """Projection onto the principal directions of the images it was fitted on.

    Fitted: `mean_` [D] and `components_` [components, D], rows orthonormal, D = channels * height * width.

    Parameters
    ----------
    components
        How many directions are kept.

    Examples
    --------
    >>> purified = alu.purifiers.PCA(components=3).fit(images)(images)
    """

    mean_: Tensor
    components_: Tensor

    def __init__(self, components: int = 500) -> None:
        super().__init__()
        if components < 1:
            raise UsageError(f"PCA needs at least 1 component; it was asked for {components}.")
        self.components = components
        self.register_buffer("mean_", torch.empty(0))
        self.register_buffer("components_", torch.empty(0, 0))

    def fit(self, images: Tensor) -> Self:
        """Learn the directions from clean images; returns itself."""
        check_images(images, "PCA.fit")
        rows = images.detach().flatten(1)
        largest = min(len(rows) - 1, rows.shape[1])
        if self.components > largest:
            raise InputError(
                f"PCA with {self.components} components needs more than {self.components} images and pixels; "
                f"it was given {len(rows)} images of {rows.shape[1]} values. Use at most {largest} components."
            )
        # In float64: float32 loses the small eigenvalues, and with them the last directions.
        if len(rows) < rows.shape[1] and rows.numel() > AT_ONCE:
            mean, kept = _in_blocks(rows, self.components)
        else:
            mean, kept = _whole(rows.double(), self.components)
        # An eigenvector's sign is arbitrary: fix it, so that every machine stores the same numbers.
        for row in kept:
            row.mul_(row[row.abs().argmax()].sign())
        self.mean_ = mean.to(images.dtype)
        self.components_ = kept.to(images.dtype).contiguous()
        return self

    @classmethod
    def bundled(cls, name: str) -> Self:
        """A projection that comes with the package, by its model's name."""
        weights = load(name).state_dict()
        projection = cls(len(weights["components_"]))
        projection.load_state_dict(weights)
        return projection

    def first(self, components: int) -> PCA:
        """A projection onto the first `components` of these directions."""
        if not 1 <= components <= len(self.components_):
            raise UsageError(f"This PCA has {len(self.components_)} directions; it cannot keep the first {components}.")
        shorter = PCA(components)
        shorter.mean_, shorter.components_ = self.mean_.clone(), self.components_[:components].clone()
        return shorter

    def run(self, images: Tensor) -> Tensor:
        """Projected images."""
        if self.components_.numel() == 0:
            raise NotFittedError("PCA has no directions yet. Call PCA(components).fit(images) with clean images first.")
        rows = images.flatten(1)
        if rows.shape[1] != self.mean_.shape[0]:
            raise InputError(
                f"PCA was fitted on images of {self.mean_.shape[0]} values; these have {rows.shape[1]} "
                f"(shape {list(images.shape[1:])}). Fit it on images of this size."
            )
        codes = (rows - self.mean_) @ self.components_.T
        return (codes @ self.components_ + self.mean_).view_as(images)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: object) -> None:
        """Give the fitted arrays the sizes they were saved with."""
        for name in ("mean_", "components_"):
            if prefix + name in state_dict:
                setattr(self, name, torch.empty_like(state_dict[prefix + name]))
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _whole(exact: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Mean and the first directions of rows that fit memory several times."""
    mean = exact.mean(0)
    centred = exact - mean
    if len(centred) < centred.shape[1]:
        directions = torch.linalg.svd(centred, full_matrices=False).Vh
    else:
        directions = torch.linalg.eigh(centred.T @ centred).eigenvectors.T.flip(0)
    return mean, directions[:count].contiguous()


def _in_blocks(rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same for few large images, whose directions are sums of the images: from the products of all pairs of images,
    a block of pixels at a time. Directions in which they do not vary are left out."""
    blocks = torch.split(torch.arange(rows.shape[1]), max(1, AT_ONCE // (8 * len(rows))))
    mean = torch.empty(rows.shape[1], dtype=torch.float64, device=rows.device)
    products = torch.zeros((len(rows), len(rows)), dtype=torch.float64, device=rows.device)
    for block in blocks:
        part = rows[:, block].double()
        mean[block] = part.mean(0)
        part -= mean[block]
        products += part @ part.T
    values, vectors = (found.flip(-1)[..., :count] for found in torch.linalg.eigh(products))
    varying = values > NOTHING * values[0]
    shares = (vectors[:, varying] / values[varying].sqrt()).T
    kept = torch.empty((len(shares), rows.shape[1]), dtype=rows.dtype, device=rows.device)
    for block in blocks:
        kept[:, block] = (shares @ (rows[:, block].double() - mean[block])).to(rows.dtype)
    return mean, kept
