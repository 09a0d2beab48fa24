"""What is no batch of images is refused, with the same sentence in torch and in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alu.check import check_images
from alu.errors import InputError
from alu.pixels import refuse_none, refuse_odd_images, refuse_other_size


def checked(images: np.ndarray) -> None:
    floating = np.issubdtype(images.dtype, np.floating)
    refuse_odd_images("X", images.shape, floating, images.dtype, lambda: (float(images.min()), float(images.max())))


GOOD = np.full((2, 3, 4, 4), 0.5, dtype=np.float32)
BAD = {
    "three axes": (GOOD[0], r"X needs images \[N, C, H, W\]; these have shape \[3, 4, 4\]"),
    "bytes": ((255 * GOOD).astype(np.uint8), "X needs floating-point images in .* Divide by 255 first"),
    "0 to 255": (255 * GOOD, r"these run from 127.5 to 127.5. Divide by 255\."),
    "normalised": (GOOD - 1.5, r"run from -1 to -1. Move normalisation into the classifier"),
    "not numbers": (np.where(np.arange(4) == 1, np.nan, GOOD), "NaN or infinite pixels"),
    "infinite": (np.where(np.arange(4) == 1, np.inf, GOOD), "NaN or infinite pixels"),
}


@pytest.mark.parametrize("name", BAD)
def test_odd_images_are_refused_alike(name: str) -> None:
    images, sentence = BAD[name]
    with pytest.raises(InputError, match=sentence) as ours:
        checked(images)
    with pytest.raises(InputError) as theirs:
        check_images(torch.from_numpy(images), "X")
    assert str(ours.value) == str(theirs.value).replace("torch.", "")


def test_good_and_empty_batches_pass() -> None:
    checked(GOOD)
    checked(GOOD[:0])
    check_images(torch.from_numpy(GOOD[:0]), "X")


def test_no_image_and_another_size_are_refused() -> None:
    refuse_none((1, 3, 4, 4))
    with pytest.raises(InputError, match=r"no image: the batch has shape \[0, 3, 4, 4\]"):
        refuse_none((0, 3, 4, 4))
    refuse_other_size((3, 4, 4), (9, 3, 4, 4))
    refuse_other_size((), (9, 1, 2, 2))
    with pytest.raises(InputError, match=r"calibrated on images of 3 x 4 x 4 .*; these are 3 x 4 x 5"):
        refuse_other_size((3, 4, 4), (9, 3, 4, 5))
