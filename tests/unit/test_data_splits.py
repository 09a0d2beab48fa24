"""Splits are disjoint, balanced and stable."""

import hashlib

import pytest
import torch

from alu.data.cifar import held_out_positions
from alu.data.splits import SPLITS, disjoint, drawn, own_part
from alu.errors import DataError, UsageError

LABELS = torch.arange(1000) % 7


def test_disjoint_parts_cover_everything_once() -> None:
    parts = disjoint(LABELS, {"calibration": 100, "validation": 50}, seed=0)
    assert {name: len(part) for name, part in parts.items()} == {
        "calibration": 100,
        "validation": 50,
        "train": 850,
    }
    assert torch.cat(list(parts.values())).sort().values.tolist() == list(range(1000))


def test_disjoint_parts_have_every_class_in_proportion() -> None:
    part = disjoint(LABELS, {"calibration": 140, "validation": 70}, seed=3)
    for name, size in (("calibration", 140), ("validation", 70)):
        counts = LABELS[part[name]].bincount(minlength=7)
        assert int((counts - size / 7).abs().max()) <= 1, (name, counts)


def test_disjoint_is_stable_and_depends_on_the_seed() -> None:
    first = disjoint(LABELS, {"calibration": 100}, seed=0)["calibration"]
    assert torch.equal(first, disjoint(LABELS, {"calibration": 100}, seed=0)["calibration"])
    assert not torch.equal(first, disjoint(LABELS, {"calibration": 100}, seed=1)["calibration"])


def test_disjoint_refuses_to_leave_nothing() -> None:
    with pytest.raises(DataError, match="10 images are too few to split: the held-out parts take 10.*Give at least 11"):
        disjoint(LABELS[:10], {"calibration": 10}, seed=0)


def test_the_committed_cifar10_positions_never_change() -> None:
    parts = held_out_positions()
    assert [len(parts[name]) for name in ("calibration", "validation")] == [2500, 2500]
    assert not set(parts["calibration"].tolist()) & set(parts["validation"].tolist())
    text = ",".join(str(i) for name in ("calibration", "validation") for i in parts[name].tolist())
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "393c0282b6c2056565ee32c689f93597ebaa0d36c4def66d91037ce2e0b92b82"
    )


def test_own_parts_are_70_15_5_10_percent_and_disjoint() -> None:
    parts = {split: own_part(LABELS, split) for split in SPLITS}
    assert [len(parts[split]) for split in SPLITS] == [700, 150, 50, 100]
    assert len(set(torch.cat(list(parts.values())).tolist())) == 1000
    assert len(own_part(LABELS, "all")) == 1000


def test_own_parts_respect_what_the_user_separated() -> None:
    test = torch.arange(900, 1000)
    parts = {split: own_part(LABELS, split, {"test": test}) for split in SPLITS}
    assert torch.equal(parts["test"], test)
    assert [len(parts[split]) for split in SPLITS] == [720, 135, 45, 100]
    assert len(set(torch.cat(list(parts.values())).tolist())) == 1000


def test_an_unknown_split_offers_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean calibration"):
        own_part(LABELS, "calibrate")
    with pytest.raises(UsageError, match="Did you mean validation"):
        own_part(LABELS, "valid")


def test_a_larger_draw_begins_with_the_smaller() -> None:
    small, large = drawn(50, 10, 4, "x", "test"), drawn(50, 30, 4, "x", "test")
    assert torch.equal(large[:10], small)
    assert len(set(large.tolist())) == 30
    assert not torch.equal(small, drawn(50, 10, 5, "x", "test"))


@pytest.mark.parametrize("n", [0, -1, 51])
def test_a_draw_of_more_or_less_than_there_is_is_refused(n: int) -> None:
    with pytest.raises(UsageError, match=f"holds 50 images; n={n} cannot be drawn"):
        drawn(50, n, 0, "x", "test")
