"""Probes: questions to the subject itself, which show its traits and whether its figures can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from alu.attacks.adaptive.view import Level, View
from alu.attacks.base import Attack
from alu.attacks.goals import fooled, gradient_of, logits_of, margin
from alu.errors import AluError, InputError
from alu.evaluation.result import Diagnostic
from alu.evaluation.subject import Subject
from alu.models.normalize import CIFAR10, IMAGENET, Normalize, per_channel
from alu.modes import evaluating
from alu.purifiers.base import Traits
from alu.rng import generator
from alu.stats import sign_test
from alu.threat import ThreatModel

ROUNDING = 1e-3
"""Up to here logits differ by float rounding."""
USABLE = 0.9
"""So many images must have a gradient that is finite and not zero."""
UPHILL = 0.75
"""On so many images one gray level along the gradient must raise the loss."""
SCORE = " and of the score"
NORMALISATIONS = {
    "CIFAR-10's": CIFAR10,
    "ImageNet's": IMAGENET,
    "the usual 0.5": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
"""Means and deviations that networks are trained with."""
MOST, FEWEST = 128, 32
"""At most so many images are tried with each normalisation, and fewer than so many prove nothing."""


@dataclass(frozen=True)
class Output:
    """What a subject returns for some images: logits, whether each is answered, and the detector's score (0: none)."""

    logits: Tensor
    accepted: Tensor
    score: Tensor

    def difference(self, other: Output) -> float:
        """By how much logits, relative to the largest of an image, or scores, relative to the largest of all, differ:
        the median over images."""
        logits = (self.logits - other.logits).abs().amax(1) / self.logits.abs().amax(1).clamp_min(1e-6)
        score = (self.score - other.score).abs() / self.score.abs().max().clamp_min(1e-6)
        return max(float(logits.median()), float(score.median()))

    def changes(self, other: Output) -> int:
        """How many images get another answer, or are rejected in only one of the two."""
        answer = self.logits.argmax(1) != other.logits.argmax(1)
        return int((answer | (self.accepted != other.accepted)).sum())

    def flipped(self) -> Output:
        """The last image first."""
        return Output(self.logits.flip(0), self.accepted.flip(0), self.score.flip(0))

    def equals(self, other: Output) -> bool:
        """Equal up to rounding: single images may flip with Adam's sign steps, the median may not move."""
        return self.difference(other) <= ROUNDING and self.changes(other) <= max(1, len(self.logits) // 100)


@torch.no_grad()
def output_of(subject: Subject, images: Tensor, batch_size: int | None = None) -> Output:
    """What the subject returns for these images, in batches of this size or all at once."""
    parts = [_output(subject, part) for part in torch.split(images, batch_size or len(images))]
    return Output(*(torch.cat([getattr(part, name) for part in parts]) for name in ("logits", "accepted", "score")))


def _output(subject: Subject, images: Tensor) -> Output:
    with evaluating(subject.model, subject.classifier):
        logits = logits_of(subject.model, images)
        zeros = torch.zeros(len(images), device=images.device)
        if subject.defense is None:
            return Output(logits, zeros == 0, zeros)
        decision = subject.defense.decide(images)
        return Output(logits, decision.accepted, torch.nan_to_num(decision.score.to(zeros)))


def observed_traits(subject: Subject, images: Tensor, labels: Tensor) -> Traits:
    """Traits that a few answers show, whatever is declared: other answers in a second call or for single images, and
    an output, or a score that decides, without a usable gradient."""
    first, second = output_of(subject, images), output_of(subject, images)
    single = output_of(subject, images, batch_size=1)
    random = not first.equals(second)
    try:
        enough = all(float(usable(slope).float().mean()) >= USABLE for slope in slopes(subject, images, labels))
    except AluError:
        enough = False
    return Traits(
        stochastic=random,
        # Where answers are random anyway, nothing can be said about the batch.
        batch_dependent=not random and not first.equals(single),
        gradient="exact" if enough else "approximate",
    )


def usable(slope: Tensor) -> Tensor:
    """Which images have a gradient that is finite and not zero [N]."""
    flat = slope.flatten(1)
    return torch.isfinite(flat).all(1) & (flat.abs().amax(1) > 0)


def slopes(subject: Subject, images: Tensor, labels: Tensor) -> list[Tensor]:
    """Gradients of the deployed output's margin and, where a detector decides, of its score."""
    gradients = [margin_slope(subject, images, labels)]
    if subject.defense is not None and subject.defense.traits.detector:
        view = View(subject.defense, Level(subject.defense.grad_mode), "The diagnostic")
        with evaluating(subject.model, subject.classifier), torch.enable_grad():
            at = images.detach().clone().requires_grad_(True)
            gradients.append(gradient_of(view.excess(view.evidence(at)).sum(), at, "The diagnostic").detach())
    return gradients


def margin_slope(subject: Subject, images: Tensor, labels: Tensor) -> Tensor:
    """The gradient of the deployed output's margin."""
    with evaluating(subject.model, subject.classifier), torch.enable_grad():
        at = images.detach().clone().requires_grad_(True)
        value = margin(logits_of(subject.model, at), labels)
        return gradient_of(value.sum(), at, "The diagnostic").detach()


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
        f"A gradient that is finite and not zero: {', '.join(texts)}.",
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
    rate = float((up > down).float().mean())
    says = (
        f"On {100 * rate:.0f} % of {len(images)} images the loss is higher one gray level along the gradient's sign "
        f"than one against it ({100 * UPHILL:.0f} % required)."
    )
    return Diagnostic("gradients-mislead", "passed" if rate >= UPHILL else "failed", says)


def steadiness(subject: Subject, images: Tensor) -> list[Diagnostic]:
    """Whether answers depend on the batch, its order, a second call, the global random state, or on gradients."""
    first, second = output_of(subject, images), output_of(subject, images)
    random = not first.equals(second)
    by_size, by_order = output_of(subject, images, batch_size=3), output_of(subject, images.flip(0)).flipped()
    again = _compared("second-call", first, second, "in a second call", random)
    if random and not subject.declared.stochastic:
        again = Diagnostic("second-call", "failed", f"{again.says} It does not declare the trait `stochastic`.")
    return [
        _compared("batch-size", first, by_size, "in batches of 3", random),
        _compared("batch-order", first, by_order, "in the opposite order", random),
        again,
        _with_gradients(subject, images, first, random),
        reseeding(subject, images[:2]),
    ]


def _compared(id: str, first: Output, other: Output, how: str, random: bool) -> Diagnostic:
    says = _difference(first, other, how)
    if not random or first.equals(other):
        return Diagnostic(id, "passed" if first.equals(other) else "failed", says)
    return Diagnostic(id, "passed", f"{says} Outputs are random, so fresh draws are evaluated.")


def _difference(first: Output, other: Output, how: str) -> str:
    differ = f"logits or scores differ by {first.difference(other):.1e} (median, relative)"
    return f"{first.changes(other)} of {len(first.logits)} answers change {how}; {differ}."


def _with_gradients(subject: Subject, images: Tensor, first: Output, random: bool) -> Diagnostic:
    """Whether outputs stay the same when a gradient is requested: with other logits, or with less noise, it reacts to
    being attacked."""

    def again() -> Output:
        with torch.enable_grad(), evaluating(subject.model, subject.classifier):
            logits = logits_of(subject.model, images.detach().clone().requires_grad_(True)).detach()
        return Output(logits, first.accepted, first.score)

    other = again()
    how = "when gradients are requested"
    if not random:
        return Diagnostic("gradients-on", "passed" if first.equals(other) else "failed", _difference(first, other, how))
    if other.equals(again()):
        return Diagnostic("gradients-on", "failed", f"Outputs are random, but become deterministic {how}.")
    return Diagnostic("gradients-on", "passed", f"Outputs are random, also {how}.")


def reseeding(subject: Subject, images: Tensor) -> Diagnostic:
    """A forward pass that sets the global seed makes a random defence look deterministic."""
    with torch.random.fork_rng(devices=[]):
        states = []
        for seed in (1, 2):
            torch.random.set_rng_state(generator(seed, "reseeding").get_state())
            output_of(subject, images)
            states.append(torch.random.get_rng_state())
    if torch.equal(states[0], states[1]):
        return Diagnostic("reseeding", "failed", "A call sets the global random state to a fixed value.")
    return Diagnostic("reseeding", "passed", "A call does not set the global random state.")


def noise(subject: Subject, images: Tensor, labels: Tensor, threat: ThreatModel, attacked: Tensor) -> Diagnostic:
    """Whether random corners of the ball break as many images as the attack did, of those that are correct clean."""
    broken = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    with evaluating(subject.model, subject.classifier):
        for draw in range(5):
            stream = generator(draw, "noise as strong as an attack")
            signs = torch.randint(0, 2, images.shape, generator=stream).to(images) * 2 - 1
            corner = threat.project(images + threat.eps * signs, images)
            broken |= fooled(subject.model, corner, labels)
        correct = ~fooled(subject.model, images, labels)
    by_noise, by_attack, count = int((broken & correct).sum()), int((attacked & correct).sum()), int(correct.sum())
    says = (
        f"Of {count} images that are answered correctly when clean, five random corners of the ball break {by_noise}, "
        f"the gradient attack {by_attack}."
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
            adversarial = make(count)(subject.model, images, labels)
            with torch.no_grad(), evaluating(subject.model, subject.classifier):
                broken.append(fooled(subject.model, adversarial, labels))
        lost = max(int((fewer & ~more).sum()) for fewer, more in pairwise(broken))
        texts = ", ".join(f"{int(hit.sum())} with {count}" for count, hit in zip(counts, broken, strict=True))
        ending = f"; more restarts lost {lost} that fewer had broken" if lost else ""
        says.append(f"{type(make(1)).__name__}: {texts}{ending}.")
        most = max(most, lost)
    text = f"Broken images of {len(images)} by number of restarts. {' '.join(says)}"
    return Diagnostic("restarts", "failed" if most else "passed", text)


@torch.no_grad()
def refuse_unnormalised(logits: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor) -> None:
    """Stop where a usual normalisation makes a classifier far better: it lacks that normalisation, and would look weak
    for a reason that has nothing to do with attacks."""
    images, labels = images[:MOST], labels[:MOST]
    if len(images) < FEWEST or images.shape[1] not in (1, 3):
        return
    plain = logits(images).argmax(1) == labels
    for whose, (mean, deviation) in NORMALISATIONS.items():
        statistics = [per_channel(values, images.shape[1]) for values in (mean, deviation)]
        try:
            normalised = logits(Normalize(*statistics).to(images.device)(images)).argmax(1) == labels
        except Exception:  # a model that refuses such images expects plain ones
            return
        gained, lost = int((normalised & ~plain).sum()), int((plain & ~normalised).sum())
        if gained - lost >= 0.1 * len(images) and sign_test(gained, lost) < 1e-3:
            raise InputError(
                f"The classifier is correct on {int(plain.sum())} of {len(images)} images as they are, in [0, 1], and "
                f"on {int(normalised.sum())} with {whose} mean and deviation: it lacks its normalisation. Put it "
                f"inside: torch.nn.Sequential(alu.models.Normalize({statistics[0]}, {statistics[1]}), classifier)."
            )
