"""The workbench: answers are those of what is deployed, purifications are shared, unions go on where they were."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from alu import Defense
from alu.data.cifar import CLASSES10
from alu.decision import find_rule
from alu.evaluation.networks import other_networks
from alu.evaluation.subject import Subject
from alu.paper.base import System
from alu.paper.store import ALU_READINGS, Column, Reading, digits
from alu.paper.workbench import ImageSet, Workbench, rule_answers
from alu.purifiers import LatentVAE
from alu.storage import write_json
from tests.toys import Toy, sampled, toy_data

SYSTEM = System("cifar10-standard", "cifar10-vae@2")


def test_answers_are_those_of_the_deployed_defence() -> None:
    # A threshold from few images, so that some clean ones are flagged and both branches are seen.
    bench = Workbench({"n": 12, "calibration": 200})
    images = bench.test_images()
    measured = bench.answers(SYSTEM, images)
    for reading in ALU_READINGS:
        defense = bench.defense(SYSTEM, reading)
        decision = defense.decide(images.images)
        assert measured[reading]["alu"] == digits(decision.label == images.labels)
        assert measured[reading]["flagged"] == digits(decision.flagged)
        change = decision.post_logits - decision.pre_logits
        assert measured[reading]["all flagged"] == digits(change.argmax(1) == images.labels)
        assert measured["purified"] == digits(decision.post_logits.argmax(1) == images.labels)
        assert torch.equal(bench.decision(SYSTEM, reading, images).score, decision.score)
    assert measured["bare"] == digits(bench.logits(SYSTEM.classifier, images).argmax(1) == images.labels)


def test_a_rule_is_asked_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is published must change when the rule does: there is no second copy of it here.
    bench = Workbench({"n": 6, "calibration": 200})
    defense, images = bench.defense(SYSTEM, Reading.INPUT), bench.test_images()
    evidence = bench.evidence(defense, SYSTEM, images)
    monkeypatch.setattr(defense, "rule_", find_rule("purified"))
    changed = rule_answers(defense, evidence, images.labels)
    assert changed["alu"] == changed["all flagged"] == digits(evidence.post_logits.argmax(1) == images.labels)


def test_readings_share_one_purification(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, runs = Workbench({"n": 3, "calibration": 200}), []
    whole = LatentVAE.purify

    def counted(self: LatentVAE, images: torch.Tensor, *rest: object, **more: object) -> object:
        runs.append(len(images))
        return whole(self, images, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(LatentVAE, "purify", counted)
    bench.answers(SYSTEM, bench.test_images())
    assert sorted(runs) == [3, 100, 100], "the test images, and 200 held-out ones, once for both readings"


def test_a_purifier_that_follows_a_gradient_belongs_to_its_classifier() -> None:
    bench = Workbench({"n": 2, "calibration": 200})
    one, other = (bench.purifier(System(name, "anti-adversary")) for name in ("cifar10-standard", "cifar10-at"))
    assert one is not other
    blur = [bench.purifier(System(name, "blur")) for name in ("cifar10-standard", "cifar10-at")]
    assert blur[0] is blur[1]


def test_columns_attack_what_they_name() -> None:
    bench = Workbench({"n": 3, "calibration": 200})
    clean = bench.test_images()
    assert bench.attacked_as(Column.CLEAN, SYSTEM, clean) is clean
    on_f, through = (bench.attacked_as(column, SYSTEM, clean) for column in (Column.PGD_ON_F, Column.PGD_ON_VAE))
    labels = clean.labels
    assert (bench.classifier(SYSTEM.classifier)(on_f.images).argmax(1) == labels).sum() == 0
    assert (bench.surrogate(SYSTEM)(through.images).argmax(1) == labels).sum() == 0
    assert not torch.equal(on_f.images, through.images)
    assert on_f.classes == clean.classes == CLASSES10


def test_a_system_needs_the_bundled_models_it_is_made_of() -> None:
    assert System("cifar10-at", "cifar10-vae").needs == ("cifar10-at", "cifar10-vae")
    assert System("cifar10-asymmetric", "cifar10-asymmetric").needs == ("cifar10-asymmetric",)
    assert System("cifar10-at", "anti-adversary").needs == System("cifar10-at", "none").needs == ("cifar10-at",)
    assert System("tiny-imagenet-at", "tiny-imagenet-vae").dataset == "tiny-imagenet"


def test_a_union_has_images_of_another_network() -> None:
    bench = Workbench({"n": 4})
    network = bench.classifier("cifar10-standard")
    (other,) = other_networks(Subject(network), bench.test_images().as_dataset())
    assert Subject(other).name == "cifar10-unified"


def toys() -> ImageSet:
    data = toy_data(4)
    return ImageSet("toys", data.images, data.labels, data.classes)


def test_a_union_goes_on_from_its_cell_and_not_from_a_stranger(tmp_path: Path) -> None:
    bench = Workbench({"n": 4})
    whole = bench.union(Toy(), toys())
    bench.work = tmp_path / "cell"

    def interrupted(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    bench.watch = interrupted
    with pytest.raises(KeyboardInterrupt):
        bench.union(Toy(), toys())
    left = tmp_path / "cell" / "union.json.work" / "evaluation.json"
    assert left.exists()
    bench.watch = lambda *_: None
    assert bench.union(Toy(), toys()) == whole
    write_json(left, {"subject": "another"})
    assert bench.union(Toy(), toys()) == whole


def test_a_union_of_a_random_defence_keeps_its_draws() -> None:
    stages: set[str] = set()
    bench = Workbench({"n": 4}, watch=lambda what, done, total: stages.add(what))
    union = bench.union(Defense(Toy(), sampled(), rule="purified"), toys())
    assert stages == {"Attacking toys"}, "a cell is about the defence; the bare classifier has cells of its own"
    draws, right = union["right draws"], {"clean": union["clean"], "adaptive": union["adaptive"]}
    for when, outcome in right.items():
        assert len(draws[when]) == 4
        assert all(share == 1.0 for share, one in zip(draws[when], outcome, strict=True) if one == "1")
    assert all(least <= share for share, least in zip(draws["clean"], draws["adaptive"], strict=True))
    assert "right draws" not in Workbench({"n": 4}).union(Toy(), toys())
