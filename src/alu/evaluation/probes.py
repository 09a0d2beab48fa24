"""Probes: questions to the subject itself that show whether its figures can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from alu.attacks.base import Attack
from alu.attacks.goals import fooled, logits_of, margin
from alu.errors import AluError
from alu.evaluation.looks import USABLE, Seen, joined, margin_slope, seen, slopes, usable
from alu.evaluation.result import Diagnostic
from alu.evaluation.subject import Subject
from alu.modes import evaluating
from alu.rng import generator
from alu.threat import ThreatModel

SCORE = " and of the score"


def gradients(subject: Subject, images: Tensor, labels: Tensor) -> list[Diagnostic]:
    """Whether the deployed output has gradients, and whether they point uphill."""
    try:
        slope = margin_slope(subject, images, labels)
    except AluError as error:
        says = f"The deployed output has no gradient ({error}) Gradient attacks on it prove nothing."
        return [
            Diagnostic("gradients-usable", "failed", says),
            Diagnostic("gradients-mislead", "not run", "There is no gradient to compare."),
        ]
    rows = {"": usable(slope)}
    try:
        rows |= dict(zip([SCORE], map(usable, slopes(subject, images, labels)[1:]), strict=False))
    except AluError:
        rows[SCORE] = torch.zeros(len(images), dtype=torch.bool)
    least = min(float(row.float().mean()) for row in rows.values())
    texts = [f"{100 * float(row.float().mean()):.0f} % of {len(images)} images{name}" for name, row in rows.items()]
    first = Diagnostic(
        "gradients-usable",
        "passed" if least >= USABLE else "failed",
        f"A gradient that is a number and not zero: {', '.join(texts)}.",
    )
    fine = rows[""]
    return [first, _uphill(subject, images[fine], labels[fine], slope[fine])]


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
    whole, again = seen(subject, images), seen(subject, images)
    flipped = seen(subject, images.flip(0))
    compared = {
        "batch-size": (joined([seen(subject, part) for part in torch.split(images, 3)]), "in batches of 3"),
        "batch-order": (flipped.turned(), "in the opposite order"),
        "second-call": (again, "in a second call"),
    }
    random = not whole.same(again)
    found = [_same(id, whole, other, how, random) for id, (other, how) in compared.items()]
    if random and not subject.declared.stochastic:
        found[-1] = Diagnostic("second-call", "failed", f"{found[-1].says} It does not say so itself.")
    return [*found, _watched(subject, images, whole, random), reseeding(subject, images[:2])]


def _same(id: str, whole: Seen, other: Seen, how: str, random: bool) -> Diagnostic:
    says = _difference(whole, other, how)
    if not random or whole.same(other):
        return Diagnostic(id, "passed" if whole.same(other) else "failed", says)
    return Diagnostic(id, "passed", f"{says} It answers at random, and is judged on fresh draws.")


def _difference(whole: Seen, other: Seen, how: str) -> str:
    changed, middle = whole.changed(other), whole.moved(other)
    moved = f"logits or scores move by {middle:.1e} (median, relative)"
    return f"{changed} of {len(whole.logits)} answers change {how}; {moved}."


def _watched(subject: Subject, images: Tensor, whole: Seen, random: bool) -> Diagnostic:
    """Whether it answers as before when a gradient is asked for: with other logits, or with less noise, it knows that
    it is attacked."""

    def asked() -> Seen:
        with torch.enable_grad(), evaluating(subject.model, subject.classifier):
            logits = logits_of(subject.model, images.detach().clone().requires_grad_(True)).detach()
        return Seen(logits, whole.accepted, whole.score)

    first = asked()
    how = "when a gradient is asked for"
    if not random:
        return Diagnostic("gradients-on", "passed" if whole.same(first) else "failed", _difference(whole, first, how))
    steady = first.same(asked())
    says = f"It answers at random, and {'no longer' if steady else 'also'} {how}."
    return Diagnostic("gradients-on", "failed" if steady else "passed", says)


def reseeding(subject: Subject, images: Tensor) -> Diagnostic:
    """A forward pass that sets the global seed makes a random defence look steady."""
    with torch.random.fork_rng(devices=[]):
        ends = []
        for seed in (1, 2):
            torch.random.set_rng_state(generator(seed, "reseeding").get_state())
            seen(subject, images)
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
    subject: Subject,
    images: Tensor,
    labels: Tensor,
    makers: Sequence[Callable[[int], Attack]],
    counts: tuple[int, ...] = (1, 2, 4),
) -> Diagnostic:
    """Whether more restarts ever lose an image that fewer had broken: an attack must keep its best."""
    says, most = [], 0
    for make in makers:
        broken: list[Tensor] = []
        for count in counts:
            shown = make(count)(subject.model, images, labels)
            with torch.no_grad(), evaluating(subject.model, subject.classifier):
                broken.append(fooled(subject.model, shown, labels))
        lost = max(int((fewer & ~more).sum()) for fewer, more in pairwise(broken))
        texts = ", ".join(f"{int(hit.sum())} with {count}" for count, hit in zip(counts, broken, strict=True))
        ending = f"; more restarts lost {lost} that fewer had broken" if lost else ""
        says.append(f"{type(make(1)).__name__}: {texts}{ending}.")
        most = max(most, lost)
    text = f"Broken images of {len(images)} against restarts. {' '.join(says)}"
    return Diagnostic("restarts", "failed" if most else "passed", text)
