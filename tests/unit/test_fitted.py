"""What a fitted defence is measured on, and when it is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from alu import Defense, data
from alu.attacks import PGD
from alu.data import Dataset
from alu.detectors import LogitPeak
from alu.evaluation.harmless import HARMLESS
from alu.fitted import Fitted, HarmfulDefenseError, Row, measure
from alu.purifiers import PCA, Blur, LatentVAE
from alu.stats import Share
from tests.conftest import SmoothClassifier


def watch(what: str, done: int, total: int) -> None:
    pass


class Bright(nn.Module):
    """Two classes, by the mean of the image; its logits have a gradient."""

    def forward(self, images: Tensor) -> Tensor:
        mean = images.mean((1, 2, 3))
        return 40 * torch.stack([0.5 - mean, mean - 0.5], 1)


def half_bright(count: int = 60, size: int = 8) -> Dataset:
    labels = torch.arange(count) % 2
    noise = torch.rand((count, 1, size, size), generator=torch.Generator().manual_seed(1))
    images = 0.3 * noise + 0.1 + 0.5 * labels.view(-1, 1, 1, 1)
    return Dataset((255 * images).to(torch.uint8), labels, ("dark", "bright"), "half")


def defense_around(classifier: object, rule: str = "alu", size: int = 8) -> Defense:
    made = Defense(classifier, Blur(0.7), LogitPeak(0.05), rule)  # type: ignore[arg-type]
    return made.calibrate(half_bright(size=size).images)


def row(bare: int, deployed: int, n: int = 100, flagged: int = 0, purified: int | None = None, **more: object) -> Row:
    after = deployed if purified is None else purified
    return Row("x", Share(bare, n), Share(after, n), Share(deployed, n), Share(flagged, n), **more)  # type: ignore[arg-type]


def fitted(clean: Row, attacked: Row | None = None, *harmless: Row) -> Fitted:
    return Fitted(defense_around(Bright()), clean, attacked, "", harmless, 1.0)


def test_every_kind_of_images_is_measured_as_it_is_deployed() -> None:
    defense, held_out = defense_around(Bright()), half_bright(40)
    stages: dict[str, tuple[int, int]] = {}
    found = measure(defense, held_out, seed=3, device="cpu", watch=lambda what, *at: stages.update({what: at}))
    assert [each.images for each in found.rows] == [
        "clean", "PGD-20, 8/255 (does not know the defence)", *(change.name for change in HARMLESS),
    ]  # fmt: skip
    assert [each.moderate for each in found.harmless] == [change.moderate for change in HARMLESS]
    decision = defense.decide(held_out.images)
    assert found.clean.deployed == Share(int((decision.label == held_out.labels).sum()), 40)
    assert found.clean.flagged == Share(int(decision.flagged.sum()), 40)
    assert found.clean.bare == Share(40, 40)
    some = held_out.draw(40, 3)
    attacked = PGD(eps=8 / 255, steps=20, seed=3)(defense.classifier, some.images, some.labels)
    assert found.attacked is not None
    assert found.attacked.flagged == Share(int(defense.decide(attacked).flagged.sum()), 40)
    assert found.attacked.bare == Share(int((Bright()(attacked).argmax(1) == some.labels).sum()), 40)
    assert set(stages) == {
        "Checking on clean images", "Attacking with PGD-20", "Checking on attacked images",
        "Checking on harmless changes",
    }  # fmt: skip
    assert all(done == total for done, total in stages.values())


def test_at_most_so_many_images_and_fewer_large_ones() -> None:
    found = measure(defense_around(Bright()), half_bright(600), seed=0, device="cpu", watch=watch)
    assert found.attacked is not None
    assert (found.clean.bare.n, found.attacked.bare.n, found.harmless[0].bare.n) == (500, 200, 100)
    large = measure(defense_around(Bright(), size=128), half_bright(120, 128), seed=0, device="cpu", watch=watch)
    assert large.attacked is not None
    assert (large.clean.bare.n, large.attacked.bare.n, large.harmless[0].bare.n) == (120, 50, 25)


def test_a_classifier_without_gradients_has_no_attacked_row() -> None:
    def remote(images: Tensor) -> np.ndarray:
        return Bright()(images).numpy()

    found = measure(defense_around(remote), half_bright(20), seed=0, device="cpu", watch=watch)
    assert found.attacked is None
    assert len(found.rows) == 1 + len(HARMLESS)
    assert found.not_attacked == (
        "The classifier was not attacked: it has no gradient. How much of an attack is noticed was not measured."
    )


def test_a_gradient_that_fails_is_no_failure_of_the_fit() -> None:
    class InPlace(Bright):
        def forward(self, images: Tensor) -> Tensor:
            root = images.sqrt()
            answer: Tensor = super().forward(root)
            root.add_(1)
            return answer * root.mean() if images.requires_grad else answer

    found = measure(defense_around(InPlace()), half_bright(20), seed=0, device="cpu", watch=watch)
    assert found.attacked is None
    assert "its gradient failed (one of the variables needed for gradient computation" in found.not_attacked


def test_an_abstaining_defence_is_right_where_it_answers() -> None:
    defense, held_out = defense_around(Bright(), "abstain"), half_bright(40)
    found = measure(defense, held_out, seed=0, device="cpu", watch=watch)
    decision = defense.decide(held_out.images)
    assert int((~decision.accepted).sum()) > 0, "or the test shows nothing"
    assert found.clean.deployed.count == int(((decision.label == held_out.labels) & decision.accepted).sum())


@pytest.mark.parametrize(("bare", "deployed", "refused"), [(91, 81, False), (91, 80, True), (80, 90, False)])
def test_more_than_ten_points_of_clean_accuracy_are_refused(
    bare: int, deployed: int, refused: bool, tmp_path: Path
) -> None:
    made = fitted(row(bare, deployed))
    if not refused:
        made.refuse_harm()
        made.save(tmp_path / "saved")
    else:
        with pytest.raises(HarmfulDefenseError, match=rf"alone is right on {bare}.0 %, the defence on {deployed}.0 %"):
            made.save(tmp_path / "refused")
        assert not list(tmp_path.iterdir())
        made.save(tmp_path / "saved", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_advice_depends_on_where_answers_are_lost() -> None:
    lost_by_flags = fitted(row(91, 60, purified=90))
    with pytest.raises(HarmfulDefenseError, match=r"smaller false_alarm=, or more calibration pictures\. force=T"):
        lost_by_flags.refuse_harm()
    with pytest.raises(HarmfulDefenseError, match=r'This filter takes too much from these pictures: try purifier="va'):
        fitted(row(91, 60)).refuse_harm()
    images = data.sample("test").images[:40]
    for purifier, words in ((PCA(4).fit(images), "PCA takes too much"), (LatentVAE("cifar10-vae"), "more latent st")):
        defense = Defense(SmoothClassifier((3, 32, 32)).float(), purifier, LogitPeak(0.05))
        with pytest.raises(HarmfulDefenseError, match=words) as refused:
            replace(fitted(row(91, 60)), defense=defense).refuse_harm()
        assert "pca" not in str(refused.value), "PCA is no cure"


def test_concerns() -> None:
    assert fitted(row(90, 90), row(5, 80, flagged=5), row(80, 75)).concerns() == []
    (blind,) = fitted(row(90, 90), row(5, 9, n=200, flagged=9)).concerns()
    assert blind == (
        "This defence notices almost no attack: it flags 4.5 % of 200 PGD images, on which the classifier alone is "
        "right on 2.5 % and the defence on 4.5 %."
    )
    harsh = row(80, 10, moderate=False)
    (costly,) = fitted(row(90, 90), None, harsh, row(80, 74), replace(row(80, 60), images="JPEG")).concerns()
    assert costly == (
        "Harmless changes cost this defence answers: with JPEG the classifier alone is right on 80.0 % of 100 images, "
        "the defence on 60.0 %. Changes that cost more than 5 points: 2."
    )
