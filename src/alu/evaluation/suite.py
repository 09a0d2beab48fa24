"""Suites: everything that is fixed before the first attack, which attacks are run on a subject in which order, and
which obligations of its traits they meet."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from torch import Tensor

from alu.attacks import APGDCE, APGDT, BPDAEOT, FGSM, MIM, PGD, Attack, AutoAttack, CWLinf, Flatten, HopSkipJump, Square
from alu.attacks import adaptive as informed
from alu.attacks.adaptive.base import DRAWS
from alu.attacks.adaptive.transfer import OnAnother
from alu.attacks.adaptive.view import smoothly_purified
from alu.attacks.autoattack import DLR_CLASSES
from alu.attacks.goals import Model, refuses_by_search
from alu.data.dataset import Dataset
from alu.defense import Defense
from alu.evaluation.subject import Subject
from alu.parts import PLAIN
from alu.threat import ThreatModel

Suite = Literal["oblivious", "paper", "adaptive"]
Budget = Literal["quick", "standard", "full"]
SUITES: tuple[Suite, ...] = get_args(Suite)
BUDGETS = {"quick": 20, "standard": 40, "full": 100}
"""Gradient steps of an adaptive search."""
GUIDES = 200
"""How many of the first images serve as guides to attacks that imitate another class."""
ELSEWHERE = "mim-20 elsewhere"
LEFT_OUT = {
    "surrogate": "there is no purifier, so that they repeat the attacks on the classifier",
    "decoy, boost, pattern, trajectory": "they aim at what a purifier changes, and there is none",
    "soft": "it smooths the switch between Δ and Π; straight-through and stall follow the same score",
    "stealth": "with budget quick straight-through, which follows the same score for each class, stands for it",
}
"""Attacks that make no sense on a defence that refuses by a search, and why; the last one only with budget "quick"."""


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
class Evaluation:
    """Everything that is fixed before the first attack. `prepare` builds it once, for `estimate` and for `run`."""

    subject: Subject
    dataset: Dataset
    images: Tensor
    """The data set's images on the subject's device, and their labels."""
    labels: Tensor
    threat: ThreatModel
    suite: Suite
    budget: Budget
    seed: int
    block_size: int
    """How many images are attacked at once."""
    provenance: dict[str, Any]
    shard: tuple[int, int] = (0, 1)
    other_networks: tuple[Model, ...] = ()
    """Other networks for the same classes, whose adversarial images may transfer."""
    extra: tuple[Entry, ...] = ()
    """The user's own attacks."""
    bare: Evaluation | None = None
    """Of a defence: its classifier without it, under the same conditions."""

    only: tuple[str, ...] = ()
    """The names of the attacks to run; empty for all."""

    @cached_property
    def attacks(self) -> tuple[Entry, ...]:
        """All attacks in the order in which they are run."""
        return (*(entry for entry in entries(self) if not self.only or entry.name in self.only), *self.extra)

    @property
    def left_out(self) -> list[str]:
        """Attacks that could only repeat others on this subject, each with the reason, as sentences."""
        if self.only or not refuses_by_search(self.subject.defense):
            return []
        known = {"oblivious": 0, "paper": 1, "adaptive": 4 if self.budget == "quick" else 3}[self.suite]
        return [f"{names}: {why}." for names, why in list(LEFT_OUT.items())[:known]]

    @property
    def steps(self) -> int:
        """Gradient steps of an adaptive search."""
        return BUDGETS[self.budget]

    @property
    def common(self) -> dict[str, Any]:
        """Settings that every attack shares."""
        threat = self.threat
        return {"norm": threat.norm, "eps": threat.eps, "seed": self.seed, "batch_size": self.block_size}

    @property
    def blocks(self) -> list[int]:
        """The blocks of this shard."""
        count = -(-len(self.images) // self.block_size)
        return list(range(count))[self.shard[0] :: self.shard[1]]

    def positions(self, block: int) -> list[int]:
        """The images of a block, as positions in the data set."""
        return list(range(len(self.images)))[block * self.block_size : (block + 1) * self.block_size]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the images and labels themselves."""
        digest = hashlib.sha256(self.images.detach().cpu().contiguous().numpy().tobytes())
        digest.update(self.labels.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def settings(self) -> dict[str, Any]:
        """Everything that its outcomes depend on, as plain values."""
        plain = {
            "subject": self.subject.as_json(), "data set": {"name": self.dataset.name, "split": self.dataset.split},
            "n": len(self.images), "images": self.fingerprint, "threat model": asdict(self.threat),
            "suite": self.suite, "budget": self.budget, "seed": self.seed, "shard": self.shard,
            "block_size": self.block_size,
            "attacks": {entry.name: settings_of(entry.attack) for entry in self.attacks},
            "version": {name: self.provenance[name] for name in ("alu", "commit", "torch")},
        }  # fmt: skip
        restored: dict[str, Any] = json.loads(json.dumps(plain))  # as a file has them: tuples are lists there
        return restored


def settings_of(attack: Any) -> dict[str, Any]:
    """An attack's class and its plain settings."""
    inner = getattr(attack, "attack", attack)
    facts = {key: value for key, value in vars(inner).items() if isinstance(value, PLAIN) and not key.startswith("_")}
    return {"class": type(inner).__name__, **facts}


def entries(evaluation: Evaluation) -> list[Entry]:
    """The attacks of the suite, cheap ones first."""
    subject, suite = evaluation.subject, evaluation.suite
    if subject.defense is None:
        chosen = _on_model(evaluation)
    else:
        chosen = _oblivious(evaluation)
        searches = refuses_by_search(subject.defense)
        if suite != "oblivious" and not searches:
            chosen += _surrogate(evaluation)
        if suite == "adaptive":
            chosen += (_on_search if searches else _adaptive)(evaluation, subject.defense)
    if subject.traits.stochastic and suite == "adaptive":
        attack = BPDAEOT(draws=10, steps=evaluation.steps, loss="margin", **evaluation.common)
        chosen.append(Entry("bpda-eot", "adaptive", "BPDA averaged over 10 draws", attack, meets=("draws",)))
    return chosen


def on_parts(mixture: Any, logits: Model, steps: int, common: dict[str, Any]) -> list[Entry]:
    """The attacks on a mixture, whose own gradient may vanish: on both parts together, and on what stands in for it.

    `logits` are the mixture's own, also inside a defence.
    """
    blunt, plain, standard, robust = mixture.surrogates

    def entry(name: str, attack: Attack, about: str, *meets: str) -> Entry:
        return Entry(name, "adaptive", about, attack, meets=meets)

    def aimed(model: Model) -> Attack:
        # The library leaves alone what its model gets wrong from the start; there it attacks the mixture itself.
        return OnAnother(model, APGDCE(steps=steps, **common), deeper=logits)

    return [
        entry("flatten", Flatten(steps=steps, **common), "lowers the robust lead, fools the standard part", "mixture"),
        entry("unsharpened", aimed(blunt), "APGD on the mixture without sharpening"),
        entry("plain", aimed(plain), "APGD on the mean of both parts as they are"),
        entry("robust part", OnAnother(robust, CWLinf(steps=steps, **common)), "margin PGD on the robust part"),
        entry("standard part", OnAnother(standard, MIM(steps=steps, **common)), "momentum PGD on the standard part"),
    ]


def _on_parts(evaluation: Evaluation) -> list[Entry]:
    """The same in an evaluation; nothing if its classifier is no mixture."""
    subject = evaluation.subject
    if not subject.traits.mixture:
        return []
    return on_parts(subject.classifier, subject.logits, evaluation.steps, evaluation.common)


def _oblivious(evaluation: Evaluation) -> list[Entry]:
    """Attacks on the bare classifier; the defence is then evaluated on their images."""
    common = evaluation.common

    def entry(name: str, attack: Attack, about: str, source: Model = evaluation.subject.logits) -> Entry:
        return Entry(name, "oblivious", about, OnAnother(source, attack), whole=True)

    chosen = [
        entry("fgsm", FGSM(**common), "one step on the classifier"),
        entry("pgd-20", PGD(steps=20, **common), "PGD-20 on the classifier"),
    ]
    for other in evaluation.other_networks[:1]:
        chosen.append(entry(ELSEWHERE, MIM(steps=20, **common), "momentum PGD on another network", other))
    if evaluation.budget != "quick":
        chosen += [
            entry("mim-20", MIM(steps=20, **common), "momentum PGD on the classifier"),
            entry("cw-linf", CWLinf(steps=20, **common), "margin PGD on the classifier"),
            entry("autoattack", AutoAttack(**common), "AutoAttack on the classifier"),
        ]
    return chosen


def _surrogate(evaluation: Evaluation) -> list[Entry]:
    """What the paper calls white-box: the gradient of f(D(E(x)))."""
    reconstructed, common = smoothly_purified(evaluation.subject.defense), evaluation.common

    def entry(name: str, attack: Attack, about: str) -> Entry:
        return Entry(name, "surrogate", about, OnAnother(reconstructed, attack), whole=True)

    about = "PGD-20 through encoder and decoder (for a filter, through the filter)"
    chosen = [entry("surrogate pgd-20", PGD(steps=20, **common), about)]
    if evaluation.budget != "quick":
        about = "margin PGD through encoder and decoder"
        chosen.append(entry("surrogate cw-linf", CWLinf(steps=20, **common), about))
    return chosen


def _adaptive(evaluation: Evaluation, defense: Defense) -> list[Entry]:
    """Everything that knows the defence; gradient searches before those that need none, so that masking shows."""
    # Where a flagged image is rejected, raising the score wins nothing.
    raising = ("detector",) if defense.rule_.uses_flags else ()
    purifier = defense.purifier
    following = ("steps",) if hasattr(purifier, "trajectory") or hasattr(purifier, "steps") else ()
    same, guides = _same(evaluation), _guides(evaluation)
    transfer = informed.Transfer(others=evaluation.other_networks, **same)
    entry, confident = _informed, informed.Confident(**same)
    refusing = [entry("confident", confident, "a wrong class with high confidence", "confident", "detector")]
    return [
        entry("decoy", informed.Decoy(**same), "writes a wrong label into the picture", *raising),
        entry("boost", informed.Boost(**same), "raises the true logit", *raising),
        entry("direct", informed.Direct(**same), "margin PGD on the deployed output", "white-box"),
        *(refusing if defense.rule_.rejects else ()),
        entry("pattern", informed.Pattern(**same), "raises another logit without lowering the true one"),
        entry("trajectory", informed.Trajectory(**same), "follows the purifier's steps", *following),
        entry("stealth", informed.Stealth(**same), "fools the purified answer under the threshold", "detector"),
        entry("match", informed.Match(**guides, **same), "looks like a clean image of another class"),
        entry("soft", informed.Soft(**same), "APGD on a smooth version of the decision", "white-box"),
        *_on_parts(evaluation),
        entry("transfer", transfer, "images of simpler and other models, at several strengths", "transfer"),
        entry("query", informed.Query(**same), "Square and a hard-label search", "no-gradient"),
    ]


def _on_search(evaluation: Evaluation, defense: Defense) -> list[Entry]:
    """Everything that knows a defence which refuses by a search: the strongest first, those without gradients last."""
    same, entry, quick = _same(evaluation), _informed, evaluation.budget == "quick"
    sources = f"images of the classifier and of {len(evaluation.other_networks)} other networks, at several strengths"
    weaker: dict[str, Any] = {"shares": (0.5, 1.0)} if quick else {}
    transfer = informed.Transfer(others=evaluation.other_networks, **weaker, **same)
    query = informed.Query(starts=evaluation.images[:GUIDES], **same)
    beyond, through = informed.StraightThrough(**same), informed.UnrolledSearch(**same)
    everywhere = informed.MinMax(**same)
    stealth = entry("stealth", informed.Stealth(**same), "any wrong class under the threshold", "detector")
    return [
        entry("direct", informed.Direct(**same), "margin PGD on the deployed output", "white-box"),
        entry("min-max", everywhere, "a wrong class at every point of the search", "min-max"),
        entry("confident", informed.Confident(**same), "a wrong class with high confidence", "confident"),
        entry("straight-through", beyond, "a wrong class at the worst neighbour too", "search", "detector"),
        entry("stall", informed.Stall(**same), "a point where the search makes no progress", "stall"),
        entry("unrolled search", through, "the gradient through the search", "unrolled"),
        entry("match", informed.Match(**_guides(evaluation), **same), "looks like a clean image of another class"),
        *([] if quick else [stealth]),
        *_on_parts(evaluation),
        entry("transfer", transfer, sources, "transfer"),
        entry("query", query, "Square and a hard-label search; a refusal is a failure", "no-gradient"),
    ]


def _informed(name: str, attack: Attack, about: str, *meets: str) -> Entry:
    return Entry(name, "adaptive", about, attack, meets=meets)


def _same(evaluation: Evaluation) -> dict[str, Any]:
    """The settings that all attacks that know the defence share."""
    # Declared or observed: the gradient of a random answer is a mean.
    draws = DRAWS[evaluation.budget] if evaluation.subject.traits.stochastic else None
    return {"steps": evaluation.steps, "budget": evaluation.budget, "draws": draws, **evaluation.common}


def _guides(evaluation: Evaluation) -> dict[str, Any]:
    """Clean images to imitate."""
    return {"guides": evaluation.images[:GUIDES], "guide_labels": evaluation.labels[:GUIDES]}


def _on_model(evaluation: Evaluation) -> list[Entry]:
    """The attacks on a model without a defence: the attacker knows all of it, so all of them are adaptive."""
    quick, steps, common = evaluation.budget == "quick", evaluation.steps, evaluation.common
    random, exact = evaluation.subject.traits.stochastic, evaluation.subject.traits.gradient == "exact"
    drawn: dict[str, Any] = {"draws": DRAWS[evaluation.budget] if random else 1, **common}

    def entry(name: str, attack: Attack, about: str, *meets: str) -> Entry:
        return Entry(name, "adaptive", about, attack, whole=name == "pgd-20", meets=meets)

    chosen = [
        entry("pgd-20", PGD(steps=20, **common), "PGD-20", "white-box"),
        entry("cw-linf", CWLinf(steps=steps, **common), "margin PGD", "white-box"),
    ]
    if evaluation.suite != "adaptive":
        return chosen
    chosen.append(entry("apgd-ce", APGDCE(steps=steps, **drawn), "APGD on the cross-entropy", "white-box"))
    if len(evaluation.dataset.classes) >= DLR_CLASSES["apgd-t"]:
        chosen.append(entry("apgd-t", APGDT(steps=steps, **drawn), "targeted APGD", "white-box"))
    chosen += _on_parts(evaluation)
    if not quick:
        attack = AutoAttack(version="rand" if random else "standard", **common)
        chosen.append(entry("autoattack", attack, "AutoAttack", "white-box", *([] if random else ["no-gradient"])))
    # AutoAttack has a Square of its own, but not its version for random models, and none where it cannot run.
    if quick or random or not exact:
        chosen.append(entry("square", Square(queries=500 if quick else 5_000, **common), "Square", "no-gradient"))
    if not quick and not exact:
        chosen.append(entry("hopskipjump", HopSkipJump(**common), "a hard-label search", "no-gradient"))
    return chosen
