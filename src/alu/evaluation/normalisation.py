"""A classifier that wants normalised images but is shown plain ones is weak for a reason that has nothing to do with
attacks; its figures would be of no use to anyone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from alu.errors import InputError
from alu.evaluation.metrics import sign_test
from alu.models.normalize import CIFAR10, IMAGENET, Normalize, per_channel

USUAL = {
    "CIFAR-10's": CIFAR10,
    "ImageNet's": IMAGENET,
    "one half's": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
"""Means and deviations that networks are trained with."""
LOOKED_AT, FEWEST = 128, 32
"""So many images are shown, and so many are needed to say anything."""


@torch.no_grad()
def refuse_unnormalised(logits: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor) -> None:
    """Stop where a usual normalisation makes a classifier far better: it lacks that normalisation."""
    images, labels = images[:LOOKED_AT], labels[:LOOKED_AT]
    if len(images) < FEWEST or images.shape[1] not in (1, 3):
        return
    plain = logits(images).argmax(1) == labels
    for whose, (mean, deviation) in USUAL.items():
        statistics = [per_channel(values, images.shape[1]) for values in (mean, deviation)]
        try:
            shown = logits(Normalize(*statistics).to(images.device)(images)).argmax(1) == labels
        except Exception:  # a model that refuses such images wants plain ones
            return
        gained, lost = int((shown & ~plain).sum()), int((plain & ~shown).sum())
        if gained - lost >= 0.1 * len(images) and sign_test(gained, lost) < 1e-3:
            raise InputError(
                f"The classifier is right on {int(plain.sum())} of {len(images)} images as they are, in [0, 1], and on "
                f"{int(shown.sum())} with {whose} mean and deviation: it lacks its normalisation. Put it inside: "
                f"torch.nn.Sequential(alu.models.Normalize({statistics[0]}, {statistics[1]}), classifier)."
            )
