"""Harmless changes: each does what its name says, to each image alone."""

from __future__ import annotations

import math

import pytest
import torch

import alu
from alu import Defense
from alu.evaluation.evaluate import evaluate
from alu.evaluation.harmless import HARMLESS, contrast, gaussian_noise, harmless_rows, rotated, salt_and_pepper, shifted
from alu.purifiers import Blur
from alu.threat import ThreatModel
from tests.toys import Toy, toy_data, toy_defense

IMAGES = torch.rand((6, 3, 32, 32), generator=torch.Generator().manual_seed(0)) * 0.4 + 0.3


@pytest.mark.parametrize("change", HARMLESS, ids=lambda change: change.name)
def test_changes_keep_shape_and_range_and_look_at_one_image(change: object) -> None:
    changed = change.apply(IMAGES)  # type: ignore[attr-defined]
    assert changed.shape == IMAGES.shape
    assert float(changed.min()) >= 0
    assert float(changed.max()) <= 1
    assert not torch.equal(changed, IMAGES)
    torch.testing.assert_close(change.apply(IMAGES[2:4]), changed[2:4])  # type: ignore[attr-defined]
    assert change.apply(IMAGES[:, :1, :, :20]).shape == (6, 1, 32, 20)  # type: ignore[attr-defined]


def test_the_list_is_as_long_as_promised() -> None:
    names = {change.name for change in HARMLESS}
    wanted = {f"Gaussian noise {s}" for s in ("0.02", "0.05", "0.1", "0.2")}
    wanted |= {f"salt and pepper {p} %" for p in (1, 2, 5)} | {
        f"brightness {b}" for b in ("+0.1", "-0.1", "+0.2", "-0.2")
    }
    wanted |= {f"JPEG, quality {q}" for q in (90, 75, 50)} | {"shift by 1 pixel", "shift by 2 pixels"}
    wanted |= {"rotation by 5 degrees", "rotation by 10 degrees", "contrast x 0.7", "blur of 0.5 pixels"}
    assert wanted <= names
    assert len(names) == len(HARMLESS)


def test_noise_and_specks_have_their_strength() -> None:
    large = torch.full((4, 3, 64, 64), 0.5) + torch.linspace(0, 0.01, 4).view(4, 1, 1, 1)  # equal images, equal noise
    assert float((gaussian_noise(large, 0.05) - large).std()) == pytest.approx(0.05, rel=0.02)
    specks = salt_and_pepper(large, 0.02) != large
    assert float(specks.float().mean()) == pytest.approx(0.02, rel=0.15)
    assert torch.equal(specks[:, 0], specks[:, 1]), "all channels of a pixel together"
    white = float((salt_and_pepper(large, 0.2) == 1).float().mean())
    assert white == pytest.approx(0.1, rel=0.1)


def test_moves_go_where_they_say() -> None:
    spot = torch.zeros((1, 1, 33, 33))
    spot[0, 0, 16, 28] = 1.0
    assert shifted(spot, 2)[0, 0, 18, 30] == 1
    turned = rotated(spot, 10.0)[0, 0]
    row, column = divmod(int(turned.argmax()), 33)
    distance = math.hypot(row - 16, column - 16)
    assert distance == pytest.approx(12, abs=0.8)
    assert math.degrees(abs(math.atan2(row - 16, column - 16))) == pytest.approx(10, abs=3)
    wide = torch.zeros((1, 1, 33, 65))
    wide[0, 0, 16, 44] = 1.0
    row, column = divmod(int(rotated(wide, 10.0)[0, 0].argmax()), 65)
    assert math.hypot(row - 16, column - 32) == pytest.approx(12, abs=0.8), "a picture that is not square is not bent"
    assert contrast(torch.tensor([0.3]), 0.5) == pytest.approx(0.4)


def test_rows_count_each_way_to_answer() -> None:
    def classifier(images: torch.Tensor) -> torch.Tensor:
        return 20 * images.mean((2, 3))

    defense = alu.Defense(classifier, alu.purifiers.Blur(), alu.detectors.LogitShift(0.2), rule="abstain")
    defense.calibrate(IMAGES)
    labels = classifier(IMAGES).argmax(1)
    seen: list[tuple[int, int]] = []
    rows = harmless_rows(defense, IMAGES, labels, batch_size=4, watch=lambda done, total: seen.append((done, total)))
    assert [row["change"] for row in rows] == [change.name for change in HARMLESS]
    assert seen[0] == (0, len(HARMLESS))
    assert seen[-1] == (len(HARMLESS), len(HARMLESS))
    for row in rows:
        assert row["n"] == 6
        assert row["flagged"] == row["rejected"]
        assert row["right"] <= 6 - row["rejected"]
    noisy = HARMLESS[3].apply(IMAGES)
    assert rows[3]["bare"] == int((classifier(noisy).argmax(1) == labels).sum())
    decision = defense.decide(noisy)
    assert rows[3]["purified"] == int((decision.post_logits.argmax(1) == labels).sum())


THREAT = ThreatModel("Linf", 0.1)


@pytest.mark.parametrize("detector", [True, False])
def test_harmless_changes_are_counted_with_and_without_a_detector(detector: bool) -> None:
    defense = toy_defense() if detector else Defense(Toy(), Blur(0.5), rule="purified")
    data = toy_data(60)
    result = evaluate(defense, data, THREAT, "oblivious", "quick", bare=False)
    rows = {row["change"]: row for row in result.detection["harmless"]}
    assert list(rows) == [change.name for change in HARMLESS]
    for change in HARMLESS[:3]:
        decision = defense.decide(change.apply(data.images))
        assert rows[change.name]["flagged"] == int(decision.flagged.sum())
        assert rows[change.name]["right"] == int((decision.label == data.labels).sum())
    assert any(row["flagged"] for row in rows.values()) == detector
    assert any(row["right"] < row["bare"] for row in rows.values())
    dearest = max(rows.values(), key=lambda row: row["bare"] - row["right"])
    bare, deployed = (f"{100 * dearest[name] / 60:.1f} %" for name in ("bare", "right"))
    (line,) = (line for line in str(result).splitlines() if line.startswith("harmless changes"))
    assert dearest["change"] in line
    assert line.endswith(f"costs most: bare {bare}, deployed {deployed} (n = 60)")
