"""The bundled models: what their cards say, and what the defence promises on them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from alu import Defense, data, models
from alu.attacks import PGD
from alu.defense import batched_logits
from alu.detectors import LogitShift
from alu.models.cards import WEIGHTS
from alu.purifiers import PCA, LatentVAE
from tests.conftest import use_all_cores

MEGABYTE = 2**20


@pytest.fixture(autouse=True)
def _two_threads(_one_thread: None) -> None:
    use_all_cores()


def share(values: Tensor) -> float:
    return float(values.float().mean())


@pytest.mark.parametrize("name", models.names())
def test_cards_are_complete_and_hashes_hold(name: str) -> None:
    card = models.card(name)
    model = models.load(name)
    assert models.weight_hash(model) == card.sha256
    assert card.command
    assert card.data
    assert card.source
    assert card.licence
    assert card.figures
    assert not model.training


def test_the_zoo_is_small() -> None:
    assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) <= 57 * MEGABYTE


def test_a_changed_file_is_refused(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    from alu.errors import StorageError
    from alu.models import cards
    from alu.storage import read_tensors, write_tensors

    assert isinstance(tmp_path, Path)
    for path in WEIGHTS.glob("cifar10-standard.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(cards, "WEIGHTS", tmp_path)
    tensors = read_tensors(tmp_path / "cifar10-standard.safetensors")
    tensors["linear.bias"] = tensors["linear.bias"] + 1e-3
    write_tensors(tmp_path / "cifar10-standard.safetensors", tensors)
    with pytest.raises(StorageError, match="does not match its card"):
        models.load("cifar10-standard")


def test_figures_on_the_cards_hold_on_the_sample(sample: data.Dataset) -> None:
    classifier = models.load("cifar10-standard")
    clean = share(batched_logits(classifier, sample.images).argmax(1) == sample.labels)
    assert clean == pytest.approx(models.card("cifar10-standard").figures["clean accuracy"]["percent"] / 100, abs=0.04)
    purified = torch.cat([LatentVAE("cifar10-vae", steps=0)(part) for part in torch.split(sample.images, 100)])
    kept = share(batched_logits(classifier, purified).argmax(1) == sample.labels)
    said = models.card("cifar10-vae").figures["cifar10-standard after 0 steps"]["percent"] / 100
    assert kept == pytest.approx(said, abs=0.05)


def test_adam_is_nearly_independent_of_the_batch(sample: data.Dataset) -> None:
    images = sample.images[:400]
    defense = Defense(models.load("cifar10-standard"), LatentVAE("cifar10-vae", steps=10), LogitShift())
    defense.calibrate(data.sample("calibration").images[:200])
    whole = defense.decide(images, batch_size=100)
    parts = defense.decide(images.flip(0), batch_size=37)
    same = (whole.label == parts.label.flip(0)) & (whole.flagged == parts.flagged.flip(0))
    assert share(same) >= 0.995


def test_adam_in_float64_is_independent_of_the_batch(sample: data.Dataset) -> None:
    images = sample.images[:12].double()
    defense = Defense(models.load("cifar10-standard"), LatentVAE("cifar10-vae", steps=10), rule="purified").double()
    whole, single = defense.decide(images), defense.decide(images.flip(0), batch_size=5)
    torch.testing.assert_close(single.post_logits.flip(0), whole.post_logits, rtol=0, atol=1e-4)


def test_no_steps_in_the_reconstruction_reading_change_nothing(sample: data.Dataset) -> None:
    defense = Defense(
        models.load("cifar10-standard"), LatentVAE("cifar10-vae", steps=0), LogitShift(), reference="reconstruction"
    )
    defense.calibrate(data.sample("calibration").images[:200])
    decision = defense.decide(sample.images[:100])
    assert torch.equal(decision.pre_logits, decision.post_logits)


def test_alu_recovers_from_an_oblivious_attack_and_falls_to_a_decoy(sample: data.Dataset) -> None:
    classifier = models.load("cifar10-standard")
    few = sample.draw(60)
    defense = Defense(classifier, PCA.bundled("cifar10-pca"), LogitShift())
    defense.calibrate(data.sample("calibration").images)
    attack = PGD(eps=8 / 255, steps=20)
    oblivious = attack(classifier, few.images, few.labels)
    decoy = attack(classifier, few.images, (few.labels + 1) % 10)
    assert share(batched_logits(classifier, oblivious).argmax(1) == few.labels) <= 0.02
    assert share(defense.decide(oblivious).label == few.labels) >= 0.78
    assert share(defense.decide(decoy).label == few.labels) <= 0.08
