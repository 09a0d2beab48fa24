"""Probes: questions to the subject itself that show whether its figures can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from alu.attacks.base import Attack
from alu.attacks.goals import fooled, gradient_of, logits_of, margin
from alu.errors import AluError
from alu.evaluation.result import Diagnostic
from alu.evaluation.subject import Subject
from alu.modes import evaluating
from alu.purifiers.base import Traits
from alu.rng import generator
from alu.threat import ThreatModel

STEADY = 1e-3
"""Up to here logits differ by float noise."""
USABLE = 0.9
"""So many images must have a gradient that is a number and not zero."""


def seen_traits(subject: Subject, images: Tensor, labels: Tensor) -> Traits:
    """Traits that show in a few answers, whatever is declared: other answers in a second call or in smaller batches,
    and an output without a usable gradient."""
    whole, again = _output(subject, images), _output(subject, images)
    alone = torch.cat([_output(subject, images[place : place + 1]) for place in range(len(images))])
    random = _moved(whole, again) > STEADY
    try:
        flat = _slope(subject, images, labels).flatten(1)
        usable = bool((torch.isfinite(flat).all(1) & (flat.abs().amax(1) > 0)).float().mean() >= USABLE)
    except AluError:
        usable = False
    return Traits(
        stochastic=random,
        # Where answers are random anyway, nothing can be said about the batch.
        batch_dependent=not random and _moved(whole, alone) > STEADY,
        gradient="exact" if usable else "approximate",
    )


def _moved(whole: Tensor, other: Tensor) -> float:
    """By how much logits differ, relative to the largest of an image; the median over images."""
    return float(((whole - other).abs().amax(1) / whole.abs().amax(1).clamp_min(1e-6)).median())


def gradients(subject: Subject, images: Tensor, labels: Tensor) -> list[Diagnostic]:
    """Whether the deployed output has gradients, and whether they point uphill."""
    try:
        slope = _slope(subject, images, labels)
    except AluError as error:
        says = f"The deployed output has no gradient ({error}) Gradient attacks on it prove nothing."
        return [
            Diagnostic("gradients-usable", "failed", says),
            Diagnostic("gradients-mislead", "not run", "There is no gradient to compare."),
        ]
    flat = slope.flatten(1)
    usable = torch.isfinite(flat).all(1) & (flat.abs().amax(1) > 0)
    share = float(usable.float().mean())
    first = Diagnostic(
        "gradients-usable",
        "passed" if share >= USABLE else "failed",
        f"{100 * share:.0f} % of {len(images)} images have a gradient that is a number and not zero.",
    )
    return [first, _uphill(subject, images[usable], labels[usable], slope[usable])]


def _slope(subject: Subject, images: Tensor, labels: Tensor) -> Tensor:
    with evaluating(subject.model, subject.classifier), torch.enable_grad():
        at = images.detach().clone().requires_grad_(True)
        value = margin(logits_of(subject.model, at), labels)
        return gradient_of(value.sum(), at, "The diagnostic").detach()


def _uphill(subject: Subject, images: Tensor, labels: Tensor, slope: Tensor) -> Diagnostic:
    if not len(images):
        return Diagnostic("gradients-mislead", "not run", "No image has a usable gradient.")
    step = slope.sign() * (1 / 255)
    with torch.no_grad(), evaluating(subject.model, subject.classifier):
        up = margin(logits_of(subject.model, (images + step).clamp(0, 1)), labels)
        down = margin(logits_of(subject.model, (images - step).clamp(0, 1)), labels)
    share = float((up > down).float().mean())
    says = f"One gray level along the gradient's sign the loss is higher than one against it on {100 * share:.0f} % of "
    return Diagnostic(
        "gradients-mislead", "passed" if share >= 0.75 else "failed", f"{says}{len(images)} images (75 % wanted)."
    )


def steadiness(subject: Subject, images: Tensor) -> list[Diagnostic]:
    """Whether answers depend on the batch, its order, a second call, the global random state, or on gradients."""
    whole = _output(subject, images)
    count = len(images)
    flipped = _output(subject, images.flip(0)).flip(0)
    alone = torch.cat([_output(subject, images[start : start + 3]) for start in range(0, count, 3)])
    again = _output(subject, images)
    with torch.enable_grad(), evaluating(subject.model, subject.classifier):
        differentiable = logits_of(subject.model, images.detach().clone().requires_grad_(True)).detach()
    compared = {
        "batch-size": (alone, "in batches of 3"),
        "batch-order": (flipped, "in the opposite order"),
        "second-call": (again, "in a second call"),
        "gradients-on": (differentiable, "when a gradient is asked for"),
    }
    found = [_same(subject, id, whole, other, how) for id, (other, how) in compared.items()]
    return [*found, reseeding(subject, images[:2])]


@torch.no_grad()
def _output(subject: Subject, images: Tensor) -> Tensor:
    with evaluating(subject.model, subject.classifier):
        return logits_of(subject.model, images)


def _same(subject: Subject, id: str, whole: Tensor, other: Tensor, how: str) -> Diagnostic:
    """Equal up to float noise: single images may flip with Adam's sign steps, the median may not move."""
    changed = int((whole.argmax(1) != other.argmax(1)).sum())
    middle = _moved(whole, other)
    says = f"{changed} of {len(whole)} answers change {how}; logits move by {middle:.1e} (median, relative)."
    if middle <= STEADY and changed <= max(1, len(whole) // 100):
        return Diagnostic(id, "passed", says)
    if id in ("second-call", "gradients-on") and subject.declared.stochastic:
        return Diagnostic(id, "passed", f"{says} The defence declares itself random; it is judged on fresh draws.")
    return Diagnostic(id, "failed", says)


def reseeding(subject: Subject, images: Tensor) -> Diagnostic:
    """A forward pass that sets the global seed makes a random defence look steady."""
    with torch.random.fork_rng(devices=[]):
        ends = []
        for seed in (1, 2):
            torch.random.set_rng_state(generator(seed, "reseeding").get_state())
            _output(subject, images)
            ends.append(torch.random.get_rng_state())
    if torch.equal(ends[0], ends[1]):
        return Diagnostic("reseeding", "failed", "A call sets the global random state to a fixed value.")
    return Diagnostic("reseeding", "passed", "A call leaves the global random state to its owner.")


def noise(subject: Subject, images: Tensor, labels: Tensor, threat: ThreatModel, attacked: Tensor) -> Diagnostic:
    """Whether random corners of the ball break as many images as the attack did, of those that are right clean."""
    broken = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    with evaluating(subject.model, subject.classifier):
        for draw in range(5):
            stream = generator(draw, "noise as strong as an attack")
            signs = torch.randint(0, 2, images.shape, generator=stream).to(images) * 2 - 1
            shown = threat.project(images + threat.eps * signs, images)
            broken |= fooled(subject.model, shown, labels)
        right = ~fooled(subject.model, images, labels)
    by_noise, by_attack, count = int((broken & right).sum()), int((attacked & right).sum()), int(right.sum())
    says = (
        f"Of {count} images that are right clean, five random corners of the ball break {by_noise}, the gradient "
        f"attack {by_attack}."
    )
    weak = by_noise > 0 and by_noise >= by_attack
    return Diagnostic("noise", "failed" if weak else "passed", says)


def restarts(
    subject: Subject, images: Tensor, labels: Tensor, make: Callable[[int], Attack], counts: tuple[int, ...] = (1, 2, 4)
) -> Diagnostic:
    """Whether more restarts ever lose an image that fewer had broken: an attack must keep its best."""
    broken: list[Tensor] = []
    for count in counts:
        shown = make(count)(subject.model, images, labels)
        with torch.no_grad(), evaluating(subject.model, subject.classifier):
            broken.append(fooled(subject.model, shown, labels))
    lost = max(int((fewer & ~more).sum()) for fewer, more in pairwise(broken))
    texts = ", ".join(f"{int(hit.sum())} with {count}" for count, hit in zip(counts, broken, strict=True))
    says = f"Broken images of {len(images)} against restarts: {texts}."
    if lost:
        return Diagnostic("restarts", "failed", f"{says} More restarts lost {lost} that fewer had broken.")
    return Diagnostic("restarts", "passed", says)
