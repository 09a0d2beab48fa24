"""check_normalisation: whether a classifier is clearly better with other constants than its own, on labelled images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from alu.check import answers, check_images, check_labels, check_logits, evaluating
from alu.errors import AluError, InputError
from alu.models.normalize import NORMALISATIONS, Constants, Normalize
from alu.progress import at_once
from alu.stats import Share, sign_test

LEAST_GAIN = 0.10
"""Other constants must be right on so many more of the images; where that is not possible, none are tried."""
LEVEL = 1e-3
"""The probability of speaking up by chance, for all constants together."""
UNLIKELY = 0.05
"""Two constants are told apart if one is better with a smaller probability by chance."""
MOST = 128
"""At most so many images are tried with each."""


@dataclass(frozen=True)
class NormalisationCheck:
    """What `check_normalisation` found; as text, a sentence.

    Parameters
    ----------
    who
        What the sentence calls the classifier.
    right
        How often it is right as it is.
    better, then
        The constants with which it is clearly better, and how often it is right with them; None if there are none.
    others
        Further constants with which it is clearly better, and which these images do not tell from the best.
    advice
        What to do then, a sentence.

    Examples
    --------
    >>> alu.models.check_normalisation(classifier, images, labels).better is None
    True
    """

    who: str
    right: Share
    better: Constants | None = None
    then: Share | None = None
    others: tuple[Constants, ...] = ()
    advice: str = ""

    def __str__(self) -> str:
        own = f"{self.who} is right on {self.right.count} of {self.right.n} images"
        if self.better is None or self.then is None:
            return f"{own}."
        or_else = " (or, about as often, " + ", or ".join(one.words for one in self.others) + ")" if self.others else ""
        return f"{own} as it is, but on {self.then.count} if it gets {self.better.words}{or_else}: {self.advice}"


def check_normalisation(
    classifier: Callable[[Tensor], Any], images: Tensor, labels: Tensor, who: str | None = None
) -> NormalisationCheck:
    """How often a classifier is right, and whether another usual normalisation would make it clearly better.

    Tried are [0, 1] as it is, [-1, 1], the constants of ImageNet and of CIFAR-10, 0 to 255, Caffe's, and its own with
    red and blue swapped. One is named if it is right on at least 10 points more of the images and an exact paired test
    says that this is no chance (0.1 % for all of them together); so a handful of images can be enough, or too few.

    Parameters
    ----------
    classifier
        A module, or any callable, from [0, 1] images to logits. Its own constants are known if exactly one `Normalize`
        is inside; otherwise it is taken to have none.
    images, labels
        Clean images [N, C, H, W] in [0, 1] and their classes [N]; the first 128 are used.
    who
        What the sentence calls it; its class by default.

    Examples
    --------
    >>> print(alu.models.check_normalisation(classifier, images, labels, "It"))
    It is right on ... of 4 images.
    """
    check_images(images, "check_normalisation")
    check_labels(labels, len(images), None, "check_normalisation")
    if not len(images):
        raise InputError("check_normalisation was given no image. Give it some, with their labels.")
    who = who or f"The classifier {type(classifier).__name__}"
    images, labels = images[:MOST], labels[:MOST]
    own = _own_layer(classifier)
    plain = _right(classifier, images, labels, who)
    right = Share(int(plain.sum()), len(plain))
    found: list[tuple[Tensor, Constants]] = []
    # An adapter whose numbers are fixed (8-bit input) has nothing to try.
    if right.value <= 1 - LEAST_GAIN and getattr(classifier, "normalises", True):
        rivals = list(_rivals(own, images.shape[1]))
        for constants in rivals:
            layer = constants.layer(images.shape[1]).to(images)
            try:
                other = _right(classifier, own.inverse(layer(images)) if own else layer(images), labels, who)
            except Exception:  # a model that refuses such images expects plain ones
                continue
            gained, lost = _differences(other, plain)
            clear = sign_test(gained, lost) * len(rivals) < LEVEL
            if clear and gained - lost >= LEAST_GAIN * len(images):
                found.append((other, constants))
    if not found:
        return NormalisationCheck(who, right)
    found.sort(key=lambda one: -int(one[0].sum()))
    best, better = found[0]
    others = [constants for answer, constants in found[1:] if sign_test(*_differences(best, answer)) > UNLIKELY]
    advice = _advice(classifier, better, images.shape[1])
    return NormalisationCheck(who, right, better, Share(int(best.sum()), len(best)), tuple(others), advice)


def _differences(one: Tensor, other: Tensor) -> tuple[int, int]:
    """How many images only the one gets right, and how many only the other."""
    return int((one & ~other).sum()), int((other & ~one).sum())


def _own_layer(classifier: object) -> Normalize | None:
    """The one layer that normalises; None where there is none, or more than one."""
    parts = classifier.modules() if isinstance(classifier, nn.Module) else iter(())
    layers = [part for part in parts if isinstance(part, Normalize)]
    return layers[0] if len(layers) == 1 else None


def _rivals(own: Normalize | None, channels: int) -> Iterator[Constants]:
    """Every usual normalisation but the classifier's own; and its own with red and blue swapped."""
    own = own if own is not None else NORMALISATIONS["none"].layer(channels)
    mean, std = (tuple(values.flatten().tolist()) for values in (own.mean, own.std))
    for constants in NORMALISATIONS.values():
        layer = constants.layer(channels)
        if constants.bgr and channels != 3:
            continue
        same = torch.allclose(layer.mean, own.mean.cpu(), atol=1e-3) and torch.allclose(layer.std, own.std.cpu(), 1e-2)
        if not (same and layer.bgr == own.bgr):
            yield constants
    if channels == 3:
        order = "red, green, blue" if own.bgr else "blue, green, red"
        yield Constants(mean, std, f"its channels in the order {order}", not own.bgr)


@torch.no_grad()
def _right(classifier: Callable[[Tensor], Any], images: Tensor, labels: Tensor, who: str) -> Tensor:
    """Whether each answer is right [N]."""
    portion = at_once(tuple(images.shape[1:]), MOST)
    right = []
    with evaluating(classifier):
        for start in range(0, len(images), portion):
            some = images[start : start + portion]
            logits = check_logits(answers(classifier, some), len(some), who)
            right.append(logits.argmax(1).to(labels.device) == labels[start : start + portion])
    return torch.cat(right)


def _advice(classifier: object, better: Constants, channels: int) -> str:
    """What to change, from how the classifier was made."""
    if hasattr(classifier, "advice"):  # an adapter knows where its constants come from
        return f"its normalisation is wrong. {classifier.advice(better)}"
    layer = better.layer(channels)
    mean, std = ([round(value, 6) for value in values.flatten().tolist()] for values in (layer.mean, layer.std))
    made = f"alu.models.Normalize({mean}, {std}{', bgr=True' if layer.bgr else ''})"
    if _own_layer(classifier) is not None:
        return f"its normalisation is wrong. Use {made}."
    return f"it lacks its normalisation. Put it inside: torch.nn.Sequential({made}, classifier)."


def refuse_unnormalised(classifier: Callable[[Tensor], Any], images: Tensor, labels: Tensor) -> None:
    """Stop where a usual normalisation makes a classifier far better: it would look weak for a reason that has nothing
    to do with attacks."""
    try:
        check = check_normalisation(classifier, images, labels)
    except AluError:
        return  # what is wrong with the answers themselves is said where they are used
    if check.better is not None:
        raise InputError(str(check))
