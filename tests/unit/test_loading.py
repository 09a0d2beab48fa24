"""Bundled defences by name: what each name means, and which names mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import alu
from alu import models
from alu.errors import UsageError
from alu.loading import LEARNED, READINGS, bundled_defenses, load_purifier
from alu.models import cards
from alu.purifiers import LatentVAE


def test_every_offered_name_means_something_and_is_offered_once() -> None:
    names = bundled_defenses()
    assert len(set(names.values())) == len(names) - 9, "the demo's defences have a second name"
    assert {"demo", "demo-pca-abstain", "cifar10-unified+vae", "cifar10-unified+vae-reconstruction"} <= set(names)


@pytest.mark.parametrize(
    ("name", "reading", "purifier"),
    [
        ("cifar10-unified+pca-purified", "purified", "PCA"),
        ("cifar10-unified+pca", "input", "PCA"),
        ("cifar10-unified+pca-graded", "graded", "PCA"),
    ],
)
def test_a_classifier_behind_a_purifier(name: str, reading: str, purifier: str) -> None:
    defense = alu.load(name)
    assert isinstance(defense, alu.Defense)
    assert (defense.rule, defense.reference) == READINGS[reading]
    assert type(defense.purifier).__name__ == purifier
    wanted = models.load("cifar10-unified").state_dict()
    assert all(bool((value == wanted[key]).all()) for key, value in defense.classifier.state_dict().items())


@pytest.mark.parametrize(
    "name",
    ["cifar10-unified+pca-reconstruction", "cifar10-asymmetric+vae", "nobody+vae", "cifar10-unified+", "+vae"],
)
def test_other_names_mean_nothing(name: str) -> None:
    assert name not in bundled_defenses()
    with pytest.raises(UsageError, match="Unknown model or defence"):
        alu.load(name)


def test_a_number_after_the_name_sets_the_purifier() -> None:
    defense = alu.load("demo-pca@20")
    assert isinstance(defense, alu.Defense)
    assert defense.purifier.components_.shape[0] == 20
    images = alu.data.sample("test").images[:20]
    assert not torch.equal(defense.decide(images).score, alu.load("demo-pca").decide(images).score)
    for name in ("demo@five", "demo@", "demo@-1", "cifar10-at+check@5"):
        with pytest.raises(UsageError, match="after @ stands a whole number"):
            alu.load(name)


def test_a_bundled_check_knows_the_size_of_its_images() -> None:
    defense = alu.load("cifar10-at+check")
    assert isinstance(defense, alu.Defense)
    assert defense.shape == (3, 32, 32)


def test_load_finds_defences_classifiers_folders_and_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(alu.load("cifar10-standard"), type(models.load("cifar10-standard")))
    defense = alu.load("demo-pca")
    assert isinstance(defense, alu.Defense)
    defense.save(tmp_path / "saved")
    again = alu.load(tmp_path / "saved")
    assert isinstance(again, alu.Defense)
    images = alu.data.sample("test").images[:4]
    assert torch.equal(again.decide(images).score, defense.decide(images).score)
    (tmp_path / "own_network.py").write_text("def build():\n    return lambda images: images.mean((2, 3))\n")
    monkeypatch.chdir(tmp_path)
    assert alu.load("own_network:build")(images).shape == (4, 3)
    with pytest.raises(UsageError, match="Unknown model or defence 'cifar10-standart'. Did you mean"):
        alu.load("cifar10-standart")


@pytest.mark.parametrize(
    ("name", "kind", "setting"),
    [
        ("blur", "Blur", {"sigma": 0.5}), ("blur@1", "Blur", {"sigma": 1.0}), ("median@5", "Median", {"size": 5}),
        ("jpeg@25", "JPEG", {"quality": 25}), ("none", "Identity", {}), ("cifar10-vae", "LatentVAE", {"steps": 20}),
        ("cifar10-vae@5", "LatentVAE", {"steps": 5}), ("cifar10-pca@100", "PCA", {"components": 100}),
        ("cifar10-unet", "UNet", {}), ("cifar10-asymmetric@0", "InnerVAE", {"steps": 0}),
    ],
)  # fmt: skip
def test_purifiers_by_name(name: str, kind: str, setting: dict[str, float]) -> None:
    purifier = load_purifier(name)
    assert type(purifier).__name__ == kind
    assert {key: getattr(purifier, key) for key in setting} == setting


def test_a_vae_in_a_file_takes_the_steps_that_suit_its_decoder(tmp_path: Path) -> None:
    for network, solver in ((models.vae(latent=2, width=8), "adam"), (models.deep_vae(size=8, width=8), "gd")):
        card = models.Card("own", "vae", network.architecture, "none", "none", "this test", "MIT", "")  # type: ignore[arg-type]
        purifier = load_purifier(f"{models.save(network, card, tmp_path)}@3", seed=4)
        assert isinstance(purifier, LatentVAE)
        assert (purifier.solver, purifier.steps, purifier.seed) == (solver, 3, 4)


def test_a_purifier_that_follows_a_classifier_asks_for_it() -> None:
    with pytest.raises(UsageError, match="hedge follows a classifier's gradient"):
        load_purifier("hedge")
    soap = load_purifier("soap@2", classifier=models.load("cifar10-standard"))
    assert (type(soap).__name__, soap.steps) == ("SOAP", 2)  # type: ignore[attr-defined]
    assert type(load_purifier("hedge", classifier=models.load("cifar10-standard"))).__name__ == "Hedge"
    with pytest.raises(UsageError, match="no purifier 'cifar10-vea'. Did you mean cifar10-vae"):
        load_purifier("cifar10-vea")


NETWORKS = {"adp": models.score, "diffpure": models.score, "long-run": models.energy, "reverse": models.contrastive}


@pytest.mark.parametrize("method", list(LEARNED))
def test_a_method_with_a_network_of_its_own(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    kind, usual = LEARNED[method]
    network = NETWORKS[method](width=8)
    card = models.Card(usual, "score", network.architecture, "none", "none", "this test", "MIT", "")  # type: ignore[arg-type]
    file = models.save(network, card, tmp_path)
    made = load_purifier(f"{method}:{file}@7", seed=3)
    assert type(made) is kind
    assert (made.steps, made.seed) == (7, 3)  # type: ignore[attr-defined]
    monkeypatch.setattr(cards, "WEIGHTS", tmp_path / "none yet")
    with pytest.raises(UsageError, match=f"{method} needs the bundled network {usual}, which has not been trained"):
        load_purifier(method)
    monkeypatch.setattr(cards, "WEIGHTS", tmp_path)
    assert load_purifier(method).steps == kind(network).steps  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=f"Write a whole number, such as {method}@5"):
        load_purifier(f"{method}@many")
