"""Suites: which attacks are run on a subject, in which order, and which obligations of its traits they meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor, nn

from alu import models
from alu.attacks import BPDAEOT, FGSM, MIM, PGD, Attack, CWLinf
from alu.attacks import adaptive as informed
from alu.attacks.adaptive.base import DRAWS
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import smoothly_purified
from alu.attacks.goals import Model
from alu.data.dataset import Dataset
from alu.defense import Defense
from alu.errors import check_choice
from alu.evaluation.subject import Subject
from alu.models.cards import Card, weight_hash
from alu.purifiers.base import Traits
from alu.threat import ThreatModel

Suite = Literal["oblivious", "paper", "adaptive"]
Budget = Literal["quick", "standard", "full"]
SUITES: tuple[Suite, ...] = get_args(Suite)
BUDGETS = {"quick": 20, "standard": 40, "full": 100}
"""Gradient steps of an adaptive search."""
ELSEWHERE = "mim-20 elsewhere"
NOT_ROBUST = 1.0
"""Percent: a network with less accuracy under PGD-20 was not trained to withstand attacks."""
OBLIGATIONS = {
    "white-box": "gradient attack on the deployed output",
    "detector": "attack that aims at the detector",
    "steps": "attack that follows the purifier's steps",
    "no-gradient": "attack without gradients",
    "transfer": "transfer attack from simpler or other models",
    "draws": "gradients averaged over random draws",
    "batch": "answer that is independent of the other images in its batch",
}
"""What traits require, as half-sentences after "no"."""


@dataclass(frozen=True)
class Entry:
    """One attack of a suite."""

    name: str
    knowledge: str
    about: str
    attack: Attack
    whole: bool = False
    """Attack every image, as the paper's protocol does, not only those that no earlier attack has broken."""
    meets: tuple[str, ...] = ()
    """The obligations that it meets."""


@dataclass(frozen=True)
class Conditions:
    """Under which conditions subjects are attacked: the same for a defence and for its bare classifier."""

    threat: ThreatModel
    suite: Suite
    budget: Budget
    seed: int
    block_size: int
    """How many images are attacked at once."""
    guides: Tensor
    """Images that attacks may imitate, and their labels."""
    guide_labels: Tensor
    other_networks: tuple[Model, ...] = ()
    """Other networks for the same classes, whose adversarial images may transfer."""
    classes: int = 10

    def __post_init__(self) -> None:
        check_choice("suite", self.suite, SUITES)
        check_choice("budget", self.budget, BUDGETS)

    @property
    def steps(self) -> int:
        """Gradient steps of an adaptive search."""
        return BUDGETS[self.budget]

    @property
    def common(self) -> dict[str, Any]:
        """Settings that every attack shares."""
        return {
            "norm": self.threat.norm, "eps": self.threat.eps, "seed": self.seed, "batch_size": self.block_size,
        }  # fmt: skip


def entries(subject: Subject, conditions: Conditions) -> list[Entry]:
    """The attacks, cheap ones first."""
    random = _over_draws(conditions) if subject.traits.stochastic and conditions.suite == "adaptive" else []
    if subject.defense is None:
        return _on_model(subject, conditions) + random
    chosen = _oblivious(subject, conditions)
    if conditions.suite != "oblivious":
        chosen += _surrogate(subject, conditions)
    if conditions.suite == "adaptive":
        chosen += _adaptive(subject, subject.defense, conditions)
    return chosen + random


def obliged(traits: Traits) -> list[str]:
    """The obligations that traits create."""
    names = ["white-box"]
    if traits.detector:
        names.append("detector")
    if traits.iterative:
        names.append("steps")
    if traits.gradient != "exact":
        names += ["no-gradient", "transfer"]
    if traits.stochastic:
        names.append("draws")
    if traits.batch_dependent:
        names.append("batch")  # which no attack can meet
    return names


def unmet(traits: Traits, run: list[Entry]) -> list[str]:
    """Obligations that none of the attacks that ran meets, as half-sentences."""
    met = {name for entry in run for name in entry.meets}
    return [f"no {OBLIGATIONS[name]}" for name in obliged(traits) if name not in met]


def _oblivious(subject: Subject, conditions: Conditions) -> list[Entry]:
    """Attacks on the bare classifier; the defence is then evaluated on their images."""

    def on_bare(name: str, about: str, attack: Attack) -> Entry:
        return Entry(name, "oblivious", about, OnAnother(subject.logits, attack), whole=True)

    chosen = [
        on_bare("fgsm", "one step on the classifier", FGSM(**conditions.common)),
        on_bare("pgd-20", "PGD-20 on the classifier", PGD(steps=20, **conditions.common)),
    ]
    for other in conditions.other_networks[:1]:
        attack = OnAnother(other, MIM(steps=20, **conditions.common))
        chosen.append(Entry(ELSEWHERE, "oblivious", "momentum PGD on another network", attack, whole=True))
    if conditions.budget != "quick":
        from alu.attacks.autoattack import AutoAttack

        chosen += [
            on_bare("mim-20", "momentum PGD on the classifier", MIM(steps=20, **conditions.common)),
            on_bare("cw-linf", "margin PGD on the classifier", CWLinf(steps=20, **conditions.common)),
            on_bare("autoattack", "AutoAttack on the classifier", AutoAttack(**conditions.common)),
        ]
    return chosen


def _surrogate(subject: Subject, conditions: Conditions) -> list[Entry]:
    """What the paper calls white-box: the gradient of f(D(E(x)))."""
    reconstructed = smoothly_purified(subject.defense)
    about = "PGD-20 through encoder and decoder (for a filter, through the filter)"
    pgd = OnAnother(reconstructed, PGD(steps=20, **conditions.common))
    chosen = [Entry("surrogate pgd-20", "surrogate", about, pgd, whole=True)]
    if conditions.budget != "quick":
        margin = OnAnother(reconstructed, CWLinf(steps=20, **conditions.common))
        about = "margin PGD through encoder and decoder"
        chosen.append(Entry("surrogate cw-linf", "surrogate", about, margin, whole=True))
    return chosen


def _adaptive(subject: Subject, defense: Defense, conditions: Conditions) -> list[Entry]:
    """Everything that knows the defence; gradient searches before those that need none, so that masking shows."""
    # Where a flagged image is rejected, raising the score wins nothing.
    raising = ("detector",) if defense.rule == "alu" else ()
    purifier = defense.purifier
    following = ("steps",) if hasattr(purifier, "trajectory") or hasattr(purifier, "steps") else ()
    # Declared or observed: the gradient of a random answer is a mean.
    draws = DRAWS[conditions.budget] if subject.traits.stochastic else None
    same: dict[str, Any] = {"steps": conditions.steps, "budget": conditions.budget, "draws": draws, **conditions.common}
    guides: dict[str, Any] = {"guides": conditions.guides, "guide_labels": conditions.guide_labels}

    transfer = informed.Transfer(others=conditions.other_networks, **same)

    def entry(name: str, attack: Attack, about: str, *meets: str) -> Entry:
        return Entry(name, "adaptive", about, attack, meets=meets)

    return [
        entry("decoy", informed.Decoy(**same), "writes a wrong label into the picture", *raising),
        entry("boost", informed.Boost(**same), "raises the true logit", *raising),
        entry("direct", informed.Direct(**same), "margin PGD on the deployed output", "white-box"),
        entry("pattern", informed.Pattern(**same), "raises another logit without lowering the true one"),
        entry("trajectory", informed.Trajectory(**same), "follows the purifier's steps", *following),
        entry("stealth", informed.Stealth(**same), "fools the purified answer under the threshold", "detector"),
        entry("match", informed.Match(**guides, **same), "looks like a clean image of another class"),
        entry("soft", informed.Soft(**same), "APGD on a smooth version of the decision", "white-box"),
        entry("transfer", transfer, "images of simpler and other models, at several strengths", "transfer"),
        entry("query", informed.Query(**same), "Square and a hard-label search", "no-gradient"),
    ]


def _over_draws(conditions: Conditions) -> list[Entry]:
    """For a random subject: gradients at the purified image, averaged over draws."""
    attack = BPDAEOT(draws=10, steps=conditions.steps, loss="margin", **conditions.common)
    return [Entry("bpda-eot", "adaptive", "BPDA averaged over 10 draws", attack, meets=("draws",))]


def _on_model(subject: Subject, conditions: Conditions) -> list[Entry]:
    """The attacks on a model without a defence: the attacker knows all of it, so all of them are adaptive."""
    from alu.attacks.autoattack import APGDCE, APGDT, DLR_CLASSES, AutoAttack, Square
    from alu.attacks.decision_based import HopSkipJump

    quick, steps, common = conditions.budget == "quick", conditions.steps, conditions.common
    random, exact = subject.traits.stochastic, subject.traits.gradient == "exact"
    drawn: dict[str, Any] = {"draws": DRAWS[conditions.budget] if random else 1, **common}

    def entry(name: str, about: str, attack: Attack, *meets: str) -> Entry:
        return Entry(name, "adaptive", about, attack, whole=name == "pgd-20", meets=meets)

    chosen = [
        entry("pgd-20", "PGD-20", PGD(steps=20, **common), "white-box"),
        entry("cw-linf", "margin PGD", CWLinf(steps=steps, **common), "white-box"),
    ]
    if conditions.suite != "adaptive":
        return chosen
    chosen.append(entry("apgd-ce", "APGD on the cross-entropy", APGDCE(steps=steps, **drawn), "white-box"))
    if conditions.classes >= DLR_CLASSES["apgd-t"]:
        chosen.append(entry("apgd-t", "targeted APGD", APGDT(steps=steps, **drawn), "white-box"))
    if not quick and random:
        chosen.append(entry("autoattack", "AutoAttack", AutoAttack(version="rand", **common), "white-box"))
    elif not quick:
        attack = AutoAttack(version="standard", **common)
        chosen.append(entry("autoattack", "AutoAttack", attack, "white-box", "no-gradient"))
    # AutoAttack has a Square of its own, but not its version for random models, and none where it cannot run.
    if quick or random or not exact:
        chosen.append(entry("square", "Square", Square(queries=500 if quick else 5_000, **common), "no-gradient"))
    if not quick and not exact:
        chosen.append(entry("hopskipjump", "a hard-label search", HopSkipJump(**common), "no-gradient"))
    return chosen


def other_networks(subject: Subject, dataset: Dataset) -> tuple[nn.Module, ...]:
    """A bundled classifier for the same classes and image size that is not the one under attack, where there is one."""
    own = weight_hash(subject.classifier) if isinstance(subject.classifier, nn.Module) else ""
    for name in models.names("classifier"):
        card = models.card(name)
        if card.sha256 != own and card.classes == dataset.classes and _transfers(card, max(dataset.shape[1:])):
            return (models.load(name).to(subject.device),)
    return ()


def _transfers(card: Card, size: int) -> bool:
    """Whether adversarial images of a network can be expected to transfer: it reads images of this size by itself, as
    its clean accuracy on them shows, and was not trained to withstand attacks, as its robust accuracy shows."""
    reads = any(card.figures.get(figure) for figure in ("clean accuracy", "clean accuracy on bare images"))
    robust = card.figures.get("PGD-20, 8/255", {}).get("percent", 100.0)
    return bool(reads and robust < NOT_ROBUST and card.architecture.get("size", 32) == size)
