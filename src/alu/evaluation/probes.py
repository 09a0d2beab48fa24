"""Probes: questions to the subject itself, which show its traits and whether its figures can be trusted.

All of them expect a model in eval mode; ids of diagnostics are stable, and docs/diagnostics.md explains them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from alu.attacks import PGD, Attack, CWLinf, GradientAttack
from alu.attacks.adaptive import Confident, Direct, Stealth, levels
from alu.attacks.adaptive.direct import Deployed
from alu.attacks.adaptive.view import Level, View
from alu.attacks.goals import Goal, fooled, gradient_of, logits_of, margin, refuses_by_search
from alu.attacks.memory import remembering
from alu.defense import Defense
from alu.errors import AluError
from alu.evaluation.diagnostics import checked, from_curves, from_outcomes
from alu.evaluation.result import Diagnostic, Result
from alu.evaluation.subject import Subject
from alu.evaluation.suite import Evaluation
from alu.progress import Watch, silent
from alu.purifiers.base import Traits
from alu.rng import generator
from alu.threat import ThreatModel

DIAGNOSED = 32
"""How many images the diagnostics use."""
ROUNDING = 1e-3
"""Up to here logits differ by float rounding."""
USABLE = 0.9
"""So many images must have a gradient that is finite and not zero."""
UPHILL = 0.75
"""On so many images one gray level along the gradient must raise the loss."""
EPS_FACTORS = (0.25, 0.5, 1.0, 2.0)
LARGE = 64 / 255
STEPS = (5, 20, 60)
RESTARTS = 4
"""Restarts that are compared with one."""
NEED_GRADIENTS = ("eps-monotone", "eps-large", "more-steps", "more-restarts", "noise", "restarts")
STAGE = "Checking the evaluation itself"


@dataclass(frozen=True)
class Probed:
    """What the subject answered to all questions: diagnostics, and the raw curves that some of them read."""

    items: list[Diagnostic]
    curves: dict[str, Any]


def diagnose(evaluation: Evaluation, result: Result, watch: Watch = silent, probed: Probed | None = None) -> None:
    """Add all diagnostics to a result, and the raw curves that some of them read, unless `probed` has them already."""
    probed = probe(evaluation, watch) if probed is None else probed
    result.curves |= probed.curves
    result.diagnostics = [*from_outcomes(result), *probed.items]


def probe(evaluation: Evaluation, watch: Watch = silent) -> Probed:
    """All questions, on a few images. The user's own attacks are tested for whether they keep their best restart."""
    with remembering(evaluation.subject.model, evaluation.subject.steady):
        return _probe(evaluation, watch)


def _probe(evaluation: Evaluation, watch: Watch) -> Probed:
    subject, threat, seed = evaluation.subject, evaluation.threat, evaluation.seed
    images, labels = evaluation.images[:DIAGNOSED], evaluation.labels[:DIAGNOSED]
    curves: dict[str, Any] = {}
    watch(STAGE, 0, 4)
    items = steadiness(subject, images)
    watch(STAGE, 1, 4)
    items += gradients(subject, images, labels)
    watch(STAGE, 2, 4)
    try:
        curves = measure_curves(subject, images, labels, threat, seed)
    except AluError as error:
        items += [Diagnostic(id, "not run", str(error)) for id in NEED_GRADIENTS]
    else:
        items += from_curves(curves, threat.norm)
        watch(STAGE, 3, 4)
        attacked = torch.tensor([row["broken"] for row in curves["probed"]], dtype=torch.bool, device=images.device)
        items.append(noise(subject, images, labels, threat, attacked))
        own = [entry.attack for entry in evaluation.extra]
        usual = PGD if subject.defense is None else CheapPGD
        searches = [usual(norm=threat.norm, eps=threat.eps, seed=seed), *own]
        items.append(restarts(subject, images, labels, searches))
        watch(STAGE, 4, 4)
    return Probed(items, curves)


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
    defense, rows = subject.defense, []
    for part in torch.split(images, batch_size or len(images)):
        score = torch.zeros(len(part), device=part.device)
        accepted = torch.ones_like(score, dtype=torch.bool)
        if defense is None:
            logits = logits_of(subject.model, part)
        elif type(defense) is Defense:  # whose `forward` and `decide` read the same evidence
            evidence = defense.evidence(part)
            logits, decision = defense.answer(evidence), defense.judge(evidence)
        else:
            logits, decision = logits_of(defense, part), defense.decide(part)
        if defense is not None:
            accepted, score = decision.accepted, torch.nan_to_num(decision.score.to(score))
        rows.append((logits, accepted, score))
    return Output(*map(torch.cat, zip(*rows, strict=True)))


def observed_traits(subject: Subject, images: Tensor, labels: Tensor) -> Traits:
    """Traits that a few answers show, whatever is declared: other answers in a second call or for single images, and
    an output, or a score that decides, without a usable gradient."""
    first, second = output_of(subject, images), output_of(subject, images)
    single = output_of(subject, images, batch_size=1)
    random = not first.equals(second)
    try:
        slopes = margin_slope(subject, images, labels), score_slope(subject, images)
        enough = all(float(usable(slope).float().mean()) >= USABLE for slope in slopes if slope is not None)
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


def margin_slope(subject: Subject, images: Tensor, labels: Tensor) -> Tensor:
    """The gradient of the deployed output's margin."""
    with torch.enable_grad():
        at = images.detach().clone().requires_grad_(True)
        return gradient_of(margin(logits_of(subject.model, at), labels).sum(), at, "The diagnostic").detach()


def score_slope(subject: Subject, images: Tensor) -> Tensor | None:
    """The gradient of the detector's score, zero if it has none; None where no detector decides."""
    if subject.defense is None or not subject.defense.traits.detector:
        return None
    view = View(subject.defense, Level(subject.defense.grad_mode))
    with torch.enable_grad():
        at = images.detach().clone().requires_grad_(True)
        try:
            return gradient_of(view.excess(view.evidence(at)).sum(), at, "The diagnostic").detach()
        except AluError:
            return torch.zeros_like(images)


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
    fine = usable(slope)
    rates = {"output": float(fine.float().mean())}
    score = score_slope(subject, images)
    if score is not None:
        rates["score"] = float(usable(score).float().mean())
    texts = ", ".join(f"of the {name} for {100 * rate:.0f} % of {len(images)} images" for name, rate in rates.items())
    says = f"The gradient is finite and not zero: {texts}."
    first = checked("gradients-usable", min(rates.values()) >= USABLE, says)
    return [first, _uphill(subject, images[fine], labels[fine], slope[fine])]


@torch.no_grad()
def _uphill(subject: Subject, images: Tensor, labels: Tensor, slope: Tensor) -> Diagnostic:
    if not len(images):
        return Diagnostic("gradients-mislead", "not run", "No image has a usable gradient.")
    step = slope.sign() * (1 / 255)
    up, down = (margin(logits_of(subject.model, (images + by).clamp(0, 1)), labels) for by in (step, -step))
    rate = float((up > down).float().mean())
    says = (
        f"On {100 * rate:.0f} % of {len(images)} images a step of one gray level along the gradient's sign gives a "
        f"higher loss than a step against it ({100 * UPHILL:.0f} % required)."
    )
    return checked("gradients-mislead", rate >= UPHILL, says)


def steadiness(subject: Subject, images: Tensor) -> list[Diagnostic]:
    """Whether answers depend on the batch, its order, a second call, the global random state, or on gradients."""
    first, second = output_of(subject, images), output_of(subject, images)
    random = not first.equals(second)

    def compared(id: str, other: Output, how: str) -> Diagnostic:
        says = _difference(first, other, how)
        if random and not first.equals(other):
            return Diagnostic(id, "passed", f"{says} Outputs are random, so fresh draws are evaluated.")
        return checked(id, first.equals(other), says)

    again = compared("second-call", second, "in a second call")
    if random and not subject.declared.stochastic:
        again = Diagnostic("second-call", "failed", f"{again.says} The model does not declare the trait `stochastic`.")
    return [
        compared("batch-size", output_of(subject, images, batch_size=3), "in batches of 3"),
        compared("batch-order", output_of(subject, images.flip(0)).flipped(), "in the opposite order"),
        again,
        _with_gradients(subject, images, first, random),
        reseeding(subject, images[:2]),
    ]


def _difference(first: Output, other: Output, how: str) -> str:
    differ = f"logits or scores differ by {first.difference(other):.1e} (median, relative)"
    return f"{first.changes(other)} of {len(first.logits)} answers change {how}; {differ}."


def _with_gradients(subject: Subject, images: Tensor, first: Output, random: bool) -> Diagnostic:
    """Whether outputs stay the same when a gradient is requested: with other logits, or with less noise, it reacts to
    being attacked."""

    def again() -> Output:
        with torch.enable_grad():
            logits = logits_of(subject.model, images.detach().clone().requires_grad_(True)).detach()
        return Output(logits, first.accepted, first.score)

    other = again()
    how = "when gradients are requested"
    if not random:
        return checked("gradients-on", first.equals(other), _difference(first, other, how))
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
    fixed = torch.equal(states[0], states[1])
    does = "sets the global random state to a fixed value" if fixed else "does not set the global random state"
    return checked("reseeding", not fixed, f"A call {does}.")


def noise(subject: Subject, images: Tensor, labels: Tensor, threat: ThreatModel, attacked: Tensor) -> Diagnostic:
    """Whether random corners of the ball break as many images as the attack did, of those that are correct clean."""
    broken = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    for draw in range(5):
        stream = generator(draw, "noise as strong as an attack")
        signs = torch.randint(0, 2, images.shape, generator=stream).to(images) * 2 - 1
        broken |= fooled(subject.model, threat.project(images + threat.eps * signs, images), labels)
    correct = ~fooled(subject.model, images, labels)
    by_noise, by_attack = int((broken & correct).sum()), int((attacked & correct).sum())
    says = (
        f"Of {int(correct.sum())} images that are answered correctly when clean, random noise of size eps breaks "
        f"{by_noise} in five draws, the gradient attack {by_attack}."
    )
    return checked("noise", by_noise == 0 or by_noise < by_attack, says)


class CheapPGD(GradientAttack):
    """The search that adaptive attacks are made of, with the cheapest gradient of a defence: which restart is kept does
    not depend on how good the gradient is, and success is what the deployed defence says."""

    def goal(self, model: Any, images: Tensor, labels: Tensor) -> Goal:
        """A wrong deployed answer."""
        return Deployed(model, images, labels, level=levels(model)[0])


def restarts(subject: Subject, images: Tensor, labels: Tensor, attacks: Sequence[Attack]) -> Diagnostic:
    """Whether more restarts ever lose an image that fewer had broken: an attack must keep its best."""
    says, most = [], 0
    for attack in attacks:
        if not isinstance(attack, GradientAttack):
            continue
        broken = {}
        for count in (1, 2, 4):
            search = _restarted(attack, count)
            broken[count] = fooled(subject.model, search(subject.model, images, labels), labels)
        lost = max(int((fewer & ~more).sum()) for fewer, more in pairwise(broken.values()))
        texts = ", ".join(f"{int(hit.sum())} with {count}" for count, hit in broken.items())
        ending = f"; more restarts lost {lost} that fewer had broken" if lost else ""
        says.append(f"{type(attack).__name__}: {texts}{ending}.")
        most = max(most, lost)
    return checked("restarts", not most, f"Images broken out of {len(images)}, by number of restarts. {' '.join(says)}")


def _restarted(attack: GradientAttack, count: int) -> Attack:
    """The same search with few steps in a small ball, where a restart can still make a difference."""
    changed: Any = copy.copy(attack)
    changed.threat = replace(attack.threat, eps=attack.threat.eps / 8)
    changed.steps, changed.step_size, changed.restarts = 3, changed.threat.eps / 4, count
    return changed  # type: ignore[no-any-return]


def curve_attack(subject: Subject, threat: ThreatModel, eps: float, steps: int, seed: int, restarts: int = 1) -> Attack:
    """The gradient attack that curves are measured with: margin PGD on what is deployed, by its cheapest gradient."""
    settings: dict[str, Any] = {"norm": threat.norm, "eps": eps, "steps": steps, "seed": seed, "restarts": restarts}
    if subject.defense is None:
        return CWLinf(**settings)
    first = levels(subject.defense)[:1]
    if refuses_by_search(subject.defense):  # each score costs a search, and confidence needs none
        return Confident(levels=first, targets=1, **settings)
    if subject.defense.rule == "abstain":  # a flagged image is rejected, so the attack must avoid the detector
        return Stealth(levels=first, weights=(), **settings)
    return Direct(levels=first, **settings)


def measure_curves(subject: Subject, images: Tensor, labels: Tensor, threat: ThreatModel, seed: int) -> dict[str, Any]:
    """Raw curves, each point an attack of its own: correct answers against eps, steps and restarts."""

    def correct(eps: float, steps: int, restarts: int = 1) -> Tensor:
        attack = curve_attack(subject, threat, eps, steps, seed, restarts)
        return ~fooled(subject.model, attack(subject.model, images, labels), labels)

    def point(left: Tensor, attack: str, **at: float) -> dict[str, Any]:
        return {**at, "right": int(left.sum()), "n": len(images), "attack": attack}

    name = type(curve_attack(subject, threat, threat.eps, 20, seed)).__name__
    large = LARGE if threat.norm == "Linf" else 8 * threat.eps
    sizes = sorted({*(factor * threat.eps for factor in EPS_FACTORS), large})
    by_size = {eps: correct(eps, 20) for eps in sizes}
    usual = by_size[threat.eps]
    by_steps = {steps: usual if steps == 20 else correct(threat.eps, steps) for steps in STEPS}
    by_restarts = {1: usual, RESTARTS: correct(threat.eps, 20, RESTARTS)}
    return {
        "eps": [point(left, f"{name}-20", eps=eps) for eps, left in by_size.items()],
        "steps": [point(left, name, steps=steps) for steps, left in by_steps.items()],
        "restarts": [point(left, f"{name}-20", restarts=restarts) for restarts, left in by_restarts.items()],
        "probed": [{"image": image, "broken": int(not left)} for image, left in enumerate(usual.tolist())],
    }
