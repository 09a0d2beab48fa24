"""A Dataset made from what users have: other whole numbers, arrays, lists; and what it refuses."""

from typing import Any

import numpy as np
import pytest
import torch

from alu.data import Dataset
from alu.errors import InputError, UsageError

IMAGES = torch.rand((4, 3, 5, 5), generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 0, 1])
NAMES = ("a", "b")


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8])
def test_labels_of_any_whole_type_become_int64(dtype: torch.dtype) -> None:
    found = Dataset(IMAGES, LABELS.to(dtype), NAMES)
    assert found.labels.dtype == torch.int64
    assert torch.equal(found.labels, LABELS)
    loss = torch.nn.functional.cross_entropy(torch.zeros(4, 2), found.labels)  # which refuses int32
    assert torch.isfinite(loss)


def test_arrays_and_lists_are_accepted() -> None:
    found = Dataset(IMAGES.numpy(), [0, 1, 0, 1], ["a", "b"])  # type: ignore[arg-type]
    assert torch.equal(found.images, IMAGES)
    assert torch.equal(found.labels, LABELS)
    assert found.classes == NAMES
    assert torch.equal(found.take([3, 0]).indices, torch.tensor([3, 0]))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"labels": LABELS.float()}, r"whole numbers of shape \[N\]; these are float32 of shape \[4\].*labels.long"),
        ({"labels": LABELS.bool()}, r"whole numbers of shape \[N\]; these are bool"),
        ({"labels": torch.eye(4)[:, :2]}, r"of shape \[4, 2\]. Give labels.argmax\(1\)"),
        ({"labels": LABELS[:, None]}, r"of shape \[4, 1\]"),
        ({"labels": torch.tensor(1)}, r"of shape \[\]"),
        ({"labels": ["cat", "dog", "cat", "dog"]}, "labels must be a tensor or an array of numbers"),
        ({"labels": LABELS[:3]}, "4 images but 3 labels"),
        ({"labels": LABELS + 1}, "labels run from 1 to 2, but there are 2 classes"),
        ({"pixels": (IMAGES * 255).to(torch.int32)}, "images of type int32 have no agreed range"),
        ({"pixels": IMAGES[0]}, r"must be \[N, C, H, W\]; these have shape \[3, 5, 5\]"),
        ({"pixels": IMAGES * 255}, "Divide 0..255 values by 255"),
        ({"pixels": torch.where(IMAGES > 0.5, torch.nan, IMAGES)}, "pixels are NaN or infinite. Remove those images"),
        ({"classes": 2}, "classes must be a list of names, one for each label, not 2"),
        ({"classes": "ab"}, "classes must be a list of names"),
        ({"indices": torch.tensor([1])}, "4 images but 1 indices"),
    ],
)
def test_what_is_no_data_set_is_one_sentence(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Dataset(**{"pixels": IMAGES, "labels": LABELS, "classes": NAMES, **fields})


def test_nothing_is_a_data_set_too() -> None:
    found = Dataset(IMAGES[:0], torch.tensor([]), NAMES)
    assert (len(found), found.shape, found.labels.dtype) == (0, (3, 5, 5), torch.int64)


def test_images_with_a_gradient_are_checked_without_a_warning() -> None:
    assert len(Dataset(IMAGES.clone().requires_grad_(), LABELS, NAMES)) == 4


@pytest.mark.parametrize("n", [0, 5, -1, 2.5, "3"])
def test_only_a_number_that_is_there_can_be_drawn(n: Any) -> None:
    with pytest.raises(UsageError, match="images all holds 4 images; n="):
        Dataset(IMAGES, LABELS, NAMES).draw(n)
    assert len(Dataset(IMAGES, LABELS, NAMES).draw(np.int64(3))) == 3  # type: ignore[arg-type]


def named(*classes: str) -> Dataset:
    """One image for each class."""
    return Dataset(torch.rand(len(classes), 1, 2, 2), torch.arange(len(classes)), classes, "pictures")


def test_labels_follow_the_names_of_a_classifier() -> None:
    turned = named("cat", "dog", "eel").relabelled(["dog", "eel", "cat"], "net")
    assert turned.labels.tolist() == [2, 0, 1]
    assert turned.classes == ("dog", "eel", "cat")
    some = named("Cat", "sea_eel").relabelled(["ant", "sea eel", "bee", "cat"], "net")
    assert some.labels.tolist() == [3, 1]
    assert some.classes == ("ant", "sea eel", "bee", "cat")
    numbers = named("0", "1", "10", "2").relabelled([str(label) for label in range(11)], "net")
    assert numbers.labels.tolist() == [0, 1, 10, 2]


def test_names_that_say_nothing_leave_labels_as_they_are() -> None:
    pictures = named("cat", "dog")
    for classes in (["cat", "dog"], ["n01", "n02"], ["cat", "hound"], ["CAT", "Dog"]):
        assert pictures.relabelled(classes, "net") is pictures
    assert pictures.relabelled(["0", "1", "2"], "net") is pictures, "another number is refused elsewhere"


def test_a_class_that_the_classifier_does_not_know() -> None:
    with pytest.raises(
        InputError, match=r"pictures has the class 'emu', which net does not know: it has dog, cat, ..."
    ):
        named("cat", "emu").relabelled(["dog", "cat"], "net")
    with pytest.raises(InputError, match=r"'crane', which net does not know: more than one class is called so"):
        named("cat", "crane").relabelled(["crane", "cat", "crane"], "net")


def test_batches_are_made_one_at_a_time() -> None:
    pixels = torch.randint(0, 256, (7, 3, 2, 2), dtype=torch.uint8)
    dataset = Dataset(pixels, torch.zeros(7).long(), ("a",))
    parts = list(dataset.batches(3))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert torch.equal(torch.cat(parts), dataset.images)
