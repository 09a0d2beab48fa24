"""Pictures are decoded ahead of the network: in order, one portion at a time, each failure in its own row."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch

from alu import data
from alu.cli import reading
from alu.cli.answers import COLUMNS, Row
from alu.cli.reading import Portion, read_ahead
from alu.data.pictures import as_picture


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    """Seven pictures, the third of which is none."""
    files = [tmp_path / f"{number}.png" for number in range(7)]
    for file, image in zip(files, data.sample("test").images[:7], strict=True):
        as_picture(image).save(file)
    files[2].write_bytes(b"no picture")
    return [{name: None for name in COLUMNS} | {"file": str(file)} for file in files]


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_the_rows_come_in_order_with_their_own_pictures(rows: list[Row], size: int) -> None:
    portions = list(read_ahead(rows, size, (3, 32, 32), resize=False))
    assert [row for portion in portions for row in portion.rows] == rows
    assert all(len(portion.rows) <= size for portion in portions)
    assert [row["error"] is not None for row in rows] == [number == 2 for number in range(7)]
    good = [row["file"] for portion in portions for row in portion.good]
    assert good == [row["file"] for row in rows if row["error"] is None]
    images = torch.stack([image for portion in portions for image in portion.images])
    expected = (data.sample("test").images[[0, 1, 3, 4, 5, 6]] * 255).round().to(torch.uint8)
    assert torch.equal(images, expected)


def test_only_the_next_portion_is_decoded_meanwhile(rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    begun = [threading.Event() for _ in range(4)]

    def noted(some: list[Row], shape: tuple[int, ...], resize: bool) -> Portion:
        begun[rows.index(some[0]) // 2].set()
        return Portion(some)

    monkeypatch.setattr(reading, "read", noted)
    portions = read_ahead(rows, 2, (3, 32, 32), resize=False)
    next(portions)
    assert begun[1].wait(30), "the next portion is decoded while this one is answered"
    assert not begun[2].wait(0.2), "memory holds no more than one portion ahead"
    portions.close()
    assert not begun[2].is_set()


def test_what_scaling_cuts_away_belongs_to_its_portion(rows: list[Row], tmp_path: Path) -> None:
    as_picture(torch.zeros(3, 32, 64)).save(tmp_path / "5.png")
    first, second = read_ahead(rows, 4, (3, 32, 32), resize=True)
    assert (first.crops.count, second.crops.count) == (0, 1)
    assert second.crops.file.endswith("5.png")


def test_nothing_to_read(tmp_path: Path) -> None:
    assert list(read_ahead([], 5, (3, 32, 32), resize=False)) == []
