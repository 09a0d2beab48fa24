"""Batches: they depend on seed and step alone, and pictures are moved as asked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from alu.data import Dataset
from alu.rng import generator
from alu.training.batches import batches
from alu.training.settings import Settings
from tests.toys import small_data


def test_a_batch_knows_how_much_of_the_training_is_done() -> None:
    settings = Settings(epochs=2, batch_size=24)
    done = [batch.done for epoch in range(2) for batch in batches(small_data(), settings, epoch)]
    assert done == pytest.approx([number / 8 for number in range(8)])


def test_processes_share_one_stream_of_random_numbers() -> None:
    data, settings = small_data(), Settings(batch_size=16, augment="crop-flip")
    whole = next(iter(batches(data, settings, 1, 2)))
    shares = [next(iter(batches(data, settings, 1, 2, rank, 2))) for rank in range(2)]
    assert torch.equal(torch.cat([share.images for share in shares]), whole.images)
    assert torch.equal(torch.cat([share.labels for share in shares]), whole.labels)
    noise = [share.draws.normal(share.images) for share in shares]
    assert torch.equal(torch.cat(noise), whole.draws.normal(whole.images))


def test_augmentation_moves_and_mirrors() -> None:
    data = small_data(64)
    plain = next(iter(batches(data, Settings(batch_size=64), 0)))
    moved = next(iter(batches(data, Settings(batch_size=64, augment="crop-flip"), 0)))
    flipped = next(iter(batches(data, Settings(batch_size=64, augment="flip"), 0)))
    assert torch.equal(plain.labels, moved.labels)
    assert not torch.equal(plain.images, moved.images)
    same = (flipped.images == plain.images).flatten(1).all(1)
    mirrored = (flipped.images == plain.images.flip(3)).flatten(1).all(1)
    assert (same | mirrored).all()
    assert 10 <= int(mirrored.sum()) <= 54


def test_a_crop_is_a_window_of_the_reflected_image() -> None:
    data, settings = small_data(32), Settings(batch_size=32, augment="crop-flip", seed=5)
    found = next(iter(batches(data, settings, 3)))
    order = torch.randperm(32, generator=generator(5, "order", 3))
    stream = generator(5, "augment", 3, 0)
    shifts = torch.randint(0, 5, (32, 2), generator=stream).tolist()  # 2 pixels either way at 16 pixels
    mirrored = torch.randint(0, 2, (32,), generator=stream).tolist()
    padded = nn.functional.pad(data.images[order], (2, 2, 2, 2), mode="reflect")
    for image, (down, right), flip, whole in zip(found.images, shifts, mirrored, padded, strict=True):
        window = whole[:, down : down + 16, right : right + 16]
        assert torch.equal(image, window.flip(2) if flip else window)
    assert found.images.is_contiguous(memory_format=torch.channels_last)


def test_a_hole_is_cut_out_and_nothing_else_changes() -> None:
    data = small_data(64)
    moved = next(iter(batches(data, Settings(batch_size=64, augment="crop-flip"), 0)))
    cut = next(iter(batches(data, Settings(batch_size=64, augment="crop-flip-cutout"), 0)))
    gone = (cut.images != moved.images).any(1)
    assert (cut.images.permute(0, 2, 3, 1)[gone] == 0.5).all()
    sizes = gone.flatten(1).sum(1)
    assert int(sizes.max()) == 16, "a quarter of 16 pixels, squared"
    assert 8 < float(sizes.float().mean()) < 16, "some reach over the edge"
    assert len({tuple(row.nonzero()[0].tolist()) for row in gone if row.any()}) > 10, "in many places"


def test_holes_fall_inside_images_that_are_not_square() -> None:
    images = Dataset(torch.zeros(64, 3, 8, 32), torch.arange(64) % 2, ("a", "b"), "wide")
    (only,) = batches(images, Settings(batch_size=64, augment="crop-flip-cutout"), 0)
    holes = (only.images == 0.5).flatten(1).any(1).float().mean()
    assert float(holes) > 0.95
