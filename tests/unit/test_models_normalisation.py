"""Constants that a classifier is clearly better with: named where it is so, and not by chance."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import alu
from alu import data, models
from alu.errors import InputError, UsageError
from alu.models import Normalize, check_normalisation
from alu.models.normalisation import LEVEL, MOST, refuse_unnormalised
from alu.models.normalize import IMAGENET, NORMALISATIONS
from alu.rng import generator
from alu.stats import Share

SAMPLE = data.sample("test").draw(64)
THREAT = alu.ThreatModel()
TOO_CLOSE = {("none", "half"), ("imagenet", "half"), ("half", "imagenet")}
"""Own constants and those it was trained with, between which 64 images do not tell."""


@pytest.fixture(scope="module")
def network() -> nn.Module:
    """Gets values in [0, 1] and normalises them itself, in a way that `check_normalisation` does not see."""
    return Opaque(models.load("cifar10-standard"))


class Opaque(nn.Module):
    """A network that hides what it is made of."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.__dict__["hidden"] = network

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.__dict__["hidden"](images)
        return logits


class Trained(nn.Module):
    """The network as if it had been trained behind these constants: it takes them back."""

    def __init__(self, network: nn.Module, trained: Normalize) -> None:
        super().__init__()
        self.__dict__["parts"] = (network, trained)  # hidden, as the constants of a network are

    def forward(self, values: Tensor) -> Tensor:
        network, trained = self.__dict__["parts"]
        logits: Tensor = network(trained.inverse(values).clamp(0, 1))
        return logits


@pytest.mark.parametrize("trained", ["none", "half", "imagenet", "255", "caffe"])
@pytest.mark.parametrize("own", ["none", "half", "imagenet", "255"])
def test_the_constants_that_it_was_trained_with_are_found(network: nn.Module, own: str, trained: str) -> None:
    layers = [NORMALISATIONS[name].layer(3) for name in (own, trained)]
    found = check_normalisation(nn.Sequential(layers[0], Trained(network, layers[1])), SAMPLE.images, SAMPLE.labels)
    assert found.right.n == 64
    if own == trained or (own, trained) in TOO_CLOSE:
        assert (found.better, found.then) == (None, None)
        assert found.right.count >= (54 if own == trained else 42)
    else:
        assert NORMALISATIONS[trained] in (found.better, *found.others)
        assert found.then is not None
        assert found.then.count >= 54
        assert all(constants.words in str(found) for constants in (found.better, *found.others) if constants)
        if trained in ("255", "caffe"):  # far from all others
            assert (found.better, found.others) == (NORMALISATIONS[trained], ())
        assert "its normalisation is wrong. Use alu.models.Normalize([" in str(found)


def test_red_and_blue_swapped(network: nn.Module) -> None:
    """CIFAR-10 is hardly a matter of colour: a classifier that is."""

    def reddest(values: Tensor) -> Tensor:
        return 10 * values.mean((2, 3))

    images = torch.rand((40, 3, 8, 8), generator=generator(0, "colours"))
    labels = torch.arange(40) % 3
    images[torch.arange(40), labels] = 1.0
    backwards = nn.Sequential(Normalize([0.1] * 3, [0.3] * 3, bgr=True), Opaque(Wrapped(reddest)))
    found = check_normalisation(backwards, images, labels)
    assert found.right == Share(13, 40)  # green stays where it is
    assert found.then == Share(40, 40)
    assert found.better is not None
    assert not found.better.bgr


class Wrapped(nn.Module):
    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, values: Tensor) -> Tensor:
        return self.function(values)  # type: ignore[operator, no-any-return]


def test_a_handful_is_enough_or_too_few(network: nn.Module) -> None:
    wrong = nn.Sequential(NORMALISATIONS["255"].layer(3), Trained(network, NORMALISATIONS["half"].layer(3)))
    few = {n: check_normalisation(wrong, SAMPLE.images[:n], SAMPLE.labels[:n]).better is not None for n in (8, 24)}
    assert few == {8: False, 24: True}


def test_nothing_is_said_by_chance() -> None:
    """Classifiers that guess: other constants give other guesses, of which some are better; 200 of them."""
    images, labels = SAMPLE.images[:40], torch.arange(40) % 2
    said = 0
    for seed in range(200):
        weights = torch.randn((3 * 32 * 32, 2), generator=generator(seed, "guess"))

        def guess(values: Tensor, weights: Tensor = weights) -> Tensor:
            return (37 * values.flatten(1) @ weights).sin()

        said += check_normalisation(guess, images, labels).better is not None
    assert said <= 1, f"promised: {LEVEL:.1%} of the time"


def test_a_classifier_that_is_right_is_not_asked_again(network: nn.Module) -> None:
    asked = []

    def counted(images: Tensor) -> Tensor:
        asked.append(len(images))
        logits: Tensor = network(images)
        return logits

    with torch.no_grad():
        labels = network(SAMPLE.images).argmax(1)
    found = check_normalisation(counted, SAMPLE.images, labels, "It")
    assert str(found) == "It is right on 64 of 64 images."
    assert asked == [64]
    many = check_normalisation(counted, SAMPLE.images.repeat(3, 1, 1, 1), labels.repeat(3))
    assert many.right == Share(MOST, MOST)


def test_wrong_arguments() -> None:
    with pytest.raises(InputError, match=r"needs images in \[0, 1\]"):
        check_normalisation(nn.Flatten(), 255 * SAMPLE.images, SAMPLE.labels)
    with pytest.raises(InputError, match="one whole-number label per image"):
        check_normalisation(nn.Flatten(), SAMPLE.images, SAMPLE.labels[1:])
    with pytest.raises(InputError, match="was given no image"):
        check_normalisation(nn.Flatten(), SAMPLE.images[:0], SAMPLE.labels[:0])
    with pytest.raises(UsageError, match=r"a standard deviation above 0 for each channel.*std=\[1.0, 0.0\]"):
        Normalize([0.0, 0.0], [1.0, 0.0])


def test_an_evaluation_refuses_a_classifier_that_lacks_its_normalisation(network: nn.Module) -> None:
    refuse_unnormalised(network, SAMPLE.images, SAMPLE.labels)
    refuse_unnormalised(lambda images: network(images * 0), SAMPLE.images, SAMPLE.labels)
    bare = Trained(network, Normalize(*IMAGENET))
    with pytest.raises(InputError, match=r"it lacks its normalisation. Put it inside: torch.nn.Seq"):
        alu.evaluate(bare, SAMPLE, THREAT, "oblivious", "quick")

    def picky(images: Tensor) -> Tensor:
        assert 0 <= float(images.min()) <= float(images.max()) <= 1, "plain images only"
        logits: Tensor = network(1 - images)
        return logits

    refuse_unnormalised(picky, SAMPLE.images, SAMPLE.labels)


def test_the_inverse_of_a_normalisation() -> None:
    for constants in NORMALISATIONS.values():
        layer = constants.layer(3)
        torch.testing.assert_close(layer.inverse(layer(SAMPLE.images)), SAMPLE.images)
    assert not torch.equal(NORMALISATIONS["caffe"].layer(3)(SAMPLE.images)[:, 0], SAMPLE.images[:, 0])
