"""Suites: which attacks are run on a subject, in which order, and which obligations of its traits they meet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from alu.attacks import BPDAEOT, FGSM, MIM, PGD, Attack, CWLinf
from alu.attacks import adaptive as informed
from alu.attacks.adaptive.base import DRAWS
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import smoothly_purified
from alu.attacks.goals import Model
from alu.defense import Defense
from alu.errors import UsageError, nearest
from alu.evaluation.subject import Subject
from alu.purifiers.base import Traits
from alu.threat import ThreatModel

ELSEWHERE = "mim-20 elsewhere"
SUITES = ("oblivious", "paper", "adaptive")
BUDGETS = {"quick": 20, "standard": 40, "full": 100}
"""Gradient steps of an adaptive search."""
OBLIGATIONS = {
    "white-box": "gradients of what is deployed",
    "detector": "attack that aims at the detector",
    "steps": "attack that follows the purifier's steps",
    "no-gradient": "attack without gradients",
    "transfer": "images that carry over from simpler or other models",
    "draws": "gradients averaged over random draws",
    "alone": "answers to each image alone (they change with the batch)",
}


@dataclass(frozen=True)
class Entry:
    """One attack of a suite."""

    name: str
    knowledge: str
    about: str
    attack: Attack
    whole: bool = False
    """Attack every image, as the paper's protocol does, not only those still standing."""
    meets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a suite is built for."""

    threat: ThreatModel
    suite: str
    budget: str
    seed: int
    batch_size: int
    guides: Tensor
    guide_labels: Tensor
    others: tuple[Model, ...] = ()
    """Other networks for the same classes, whose images may carry over."""
    classes: int = 10

    def __post_init__(self) -> None:
        if self.suite not in SUITES:
            raise UsageError(f"There is no suite {self.suite!r}. {nearest(self.suite, list(SUITES))}")
        if self.budget not in BUDGETS:
            raise UsageError(f"There is no budget {self.budget!r}. {nearest(self.budget, list(BUDGETS))}")

    @property
    def same(self) -> dict[str, Any]:
        """Settings that every attack shares."""
        return {
            "norm": self.threat.norm, "eps": self.threat.eps, "seed": self.seed, "batch_size": self.batch_size,
        }  # fmt: skip


def entries(subject: Subject, plan: Plan) -> list[Entry]:
    """The attacks, cheap ones first."""
    random = _over_draws(plan) if subject.traits.stochastic and plan.suite == "adaptive" else []
    if subject.defense is None:
        return _on_a_model(subject, plan) + random
    chosen = _oblivious(subject, plan)
    if plan.suite != "oblivious":
        chosen += _surrogate(subject, plan)
    if plan.suite == "adaptive":
        chosen += _adaptive(subject, subject.defense, plan)
    return chosen + random


def obliged(traits: Traits) -> list[str]:
    """The obligations that traits create."""
    made = ["white-box"]
    if traits.detector:
        made.append("detector")
    if traits.iterative:
        made.append("steps")
    if traits.gradient != "exact":
        made += ["no-gradient", "transfer"]
    if traits.stochastic:
        made.append("draws")
    if traits.batch_dependent:
        made.append("alone")  # which no attack can meet
    return made


def unmet(traits: Traits, run: list[Entry]) -> list[str]:
    """Obligations that none of the attacks that ran meets, as half-sentences."""
    met = {name for entry in run for name in entry.meets}
    return [f"no {OBLIGATIONS[name]}" for name in obliged(traits) if name not in met]


def _oblivious(subject: Subject, plan: Plan) -> list[Entry]:
    """Attacks on the bare classifier, whose images the defence is then shown."""

    def on_bare(name: str, about: str, attack: Attack) -> Entry:
        return Entry(name, "oblivious", about, OnAnother(subject.logits, attack), whole=True)

    made = [
        on_bare("fgsm", "one step on the classifier", FGSM(**plan.same)),
        on_bare("pgd-20", "PGD-20 on the classifier", PGD(steps=20, **plan.same)),
    ]
    for other in plan.others[:1]:
        attack = OnAnother(other, MIM(steps=20, **plan.same))
        made.append(Entry(ELSEWHERE, "oblivious", "momentum PGD on another network", attack, whole=True))
    if plan.budget != "quick":
        from alu.attacks.autoattack import AutoAttack

        made += [
            on_bare("mim-20", "momentum PGD on the classifier", MIM(steps=20, **plan.same)),
            on_bare("cw-linf", "margin PGD on the classifier", CWLinf(steps=20, **plan.same)),
            on_bare("autoattack", "AutoAttack on the classifier", AutoAttack(**plan.same)),
        ]
    return made


def _surrogate(subject: Subject, plan: Plan) -> list[Entry]:
    """What the paper calls white-box: the gradient of f(D(E(x)))."""
    reconstructed = smoothly_purified(subject.defense)
    about = "PGD-20 through encoder and decoder (for a filter, through the filter)"
    made = [Entry("surrogate pgd-20", "surrogate", about, OnAnother(reconstructed, PGD(steps=20, **plan.same)), True)]
    if plan.budget != "quick":
        attack = OnAnother(reconstructed, CWLinf(steps=20, **plan.same))
        made.append(Entry("surrogate cw-linf", "surrogate", "margin PGD through encoder and decoder", attack, True))
    return made


def _adaptive(subject: Subject, defense: Defense, plan: Plan) -> list[Entry]:
    """Everything that knows the defence; gradient searches before those that need none, so that masking shows."""
    # Where a flagged image is rejected, raising the score wins nothing.
    raising = ("detector",) if defense.rule == "alu" else ()
    purifier = defense.purifier
    following = ("steps",) if hasattr(purifier, "trajectory") or hasattr(purifier, "steps") else ()
    # Whether it says so or was caught: a random answer's gradient is a mean.
    draws = DRAWS[plan.budget] if subject.traits.stochastic else None
    same: dict[str, Any] = {**plan.same, "steps": BUDGETS[plan.budget], "budget": plan.budget, "draws": draws}
    guides: dict[str, Any] = {"guides": plan.guides, "guide_labels": plan.guide_labels}

    carried = informed.Transfer(others=plan.others, **same)

    def entry(name: str, attack: Attack, about: str, *meets: str) -> Entry:
        return Entry(name, "adaptive", about, attack, meets=meets)

    made = [
        entry("decoy", informed.Decoy(**same), "writes a wrong label into the picture", *raising),
        entry("boost", informed.Boost(**same), "raises the true logit", *raising),
        entry("direct", informed.Direct(**same), "margin PGD on the deployed output", "white-box"),
        entry("pattern", informed.Pattern(**same), "raises another logit without lowering the true one"),
        entry("trajectory", informed.Trajectory(**same), "follows the purifier's steps", *following),
        entry("stealth", informed.Stealth(**same), "fools the purified answer under the threshold", "detector"),
        entry("match", informed.Match(**guides, **same), "looks like a clean image of another class"),
        entry("soft", informed.Soft(**same), "APGD on a smooth version of the decision", "white-box"),
        entry("transfer", carried, "images of simpler and other models, at several strengths", "transfer"),
        entry("query", informed.Query(**same), "Square and a hard-label search", "no-gradient"),
    ]
    return made


def _over_draws(plan: Plan) -> list[Entry]:
    """For a random subject: gradients at the purified image, averaged over draws."""
    attack = BPDAEOT(draws=10, steps=BUDGETS[plan.budget], loss="margin", **plan.same)
    return [Entry("bpda-eot", "adaptive", "BPDA averaged over 10 draws", attack, meets=("draws",))]


def _on_a_model(subject: Subject, plan: Plan) -> list[Entry]:
    """The attacks on anyone's model: it is its own white box, so all of them are adaptive."""
    from alu.attacks.autoattack import APGDCE, APGDT, DLR_CLASSES, AutoAttack, Square
    from alu.attacks.decision_based import HopSkipJump

    random, sloping = subject.traits.stochastic, subject.traits.gradient == "exact"
    drawn: dict[str, Any] = {**plan.same, "draws": DRAWS[plan.budget] if random else 1}
    makers: list[tuple[str, str, Callable[[], Attack], tuple[str, ...]]] = [
        ("pgd-20", "PGD-20", lambda: PGD(steps=20, **plan.same), ("white-box",)),
        ("cw-linf", "margin PGD", lambda: CWLinf(steps=BUDGETS[plan.budget], **plan.same), ("white-box",)),
    ]
    if plan.suite == "adaptive":
        steps = BUDGETS[plan.budget]
        makers += [
            ("apgd-ce", "APGD on the cross-entropy", lambda: APGDCE(steps=steps, **drawn), ("white-box",)),
        ]
        if plan.classes >= DLR_CLASSES["apgd-t"]:
            makers.append(("apgd-t", "targeted APGD", lambda: APGDT(steps=steps, **drawn), ("white-box",)))
        if plan.budget != "quick":
            meets = () if random else ("no-gradient",)
            everything = partial(AutoAttack, version="rand" if random else "standard", **plan.same)
            makers.append(("autoattack", "AutoAttack", everything, ("white-box", *meets)))
        # AutoAttack has a Square of its own, but not its version for random models, and none where it cannot run.
        if plan.budget == "quick" or random or not sloping:
            queries = 500 if plan.budget == "quick" else 5_000
            makers.append(("square", "Square", lambda: Square(queries=queries, **plan.same), ("no-gradient",)))
        if plan.budget != "quick" and not sloping:
            makers.append(("hopskipjump", "a hard-label search", lambda: HopSkipJump(**plan.same), ("no-gradient",)))
    return [
        Entry(name, "adaptive", about, make(), whole=name == "pgd-20", meets=meets)
        for name, about, make, meets in makers
    ]
