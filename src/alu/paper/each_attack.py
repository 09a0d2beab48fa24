"""each-attack: each adaptive attack by itself, on all images, against every reading: which works against which."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from alu.paper import store
from alu.paper.base import EPS, Cell, Experiment, Sizes, System, Workbench
from alu.paper.store import ALU_READINGS, Measured, Reading, Results, digits, outcomes, select
from alu.paper.views import Panel, Table, percent

ROBUST = "cifar10-at"
FEW = ("Decoy", "Boost", "Direct")
"""Attacks that are tried on the robust classifier, where each takes minutes."""
ATTACKS = (*FEW, "Pattern", "Trajectory", "Stealth", "Match", "Soft", "Transfer", "Query")
CLEAN, SURROGATE = "clean", "surrogate PGD-20"
SYSTEMS: dict[str, tuple[System, tuple[Reading, ...]]] = {
    "cifar10-vae": (System("cifar10-standard", "cifar10-vae"), (*ALU_READINGS, Reading.PURIFIED, Reading.ABSTAIN)),
    "cifar10-pca": (System("cifar10-standard", "cifar10-pca"), (Reading.INPUT, Reading.PURIFIED, Reading.ABSTAIN)),
    f"cifar10-vae on {ROBUST}": (System(ROBUST, "cifar10-vae"), ALU_READINGS),
}
"""Systems and the readings they have; a projection has no reconstruction."""
BUDGET = "quick"
VERSIONS = {
    "Pattern": 4, "Decoy": 2, "Soft": 2, "Query": 2, "Transfer": 2, "Boost": 3, "Direct": 2, "Trajectory": 2,
}  # fmt: skip
"""Attacks that have become stronger: pattern looks for its case first, decoy refreshes what is deployed, soft and query
know the detector under abstain and attack images that their twin gets wrong, transfer has another network, and searches
lose no success between two hard tests."""


class Key(store.Key, experiment="each-attack"):
    """A system in one reading under one attack."""

    system: str
    reading: Reading
    attack: str

    def __str__(self) -> str:
        return f"{self.system}, {self.reading}/{self.attack}"


def _attacks(system: str) -> tuple[str, ...]:
    return CLEAN, SURROGATE, *(FEW if SYSTEMS[system][0].classifier == ROBUST else ATTACKS)


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """Clean images, PGD-20 through the purifier, and every adaptive attack."""
    return [
        Cell(Key(name, reading, attack), system.needs, VERSIONS.get(attack, 1))
        for name, (system, readings) in SYSTEMS.items()
        if system.classifier != ROBUST or sizes["robust"]
        for reading in readings
        for attack in _attacks(name)
    ]


def measure(bench: Workbench, key: Key) -> Measured:
    """Right, wrong or rejected for each image, and whether it was flagged, under this attack."""
    return under_attack(bench, SYSTEMS[key.system][0], key.reading, key.attack)


def under_attack(bench: Workbench, system: System, reading: Reading, attack: str) -> Measured:
    """The same for any system."""
    import torch

    from alu.attacks import adaptive
    from alu.attacks.adaptive.pattern import case_three
    from alu.evaluation.subject import Subject
    from alu.evaluation.suite import BUDGETS, other_networks

    defense, clean = bench.defense(system, reading), bench.test_images()
    images = clean.images
    if attack == SURROGATE:
        images = bench.attack("pgd-20")(bench.surrogate(system), images, clean.labels)
    elif attack in ATTACKS:
        more: dict[str, Any] = {"eps": EPS, "seed": bench.seed}
        if attack == "Transfer":
            more["others"] = other_networks(Subject(defense), clean.as_dataset())
        search = getattr(adaptive, attack)(steps=BUDGETS[BUDGET], budget=BUDGET, **more)
        images = search(defense, images, clean.labels, watch=partial(bench.watch, f"{reading}, {attack}"))
    decision = defense.decide(images)
    measured: Measured = {
        "n": len(clean), "budget": BUDGET, "outcome": outcomes(decision, clean.labels),
        "flagged": digits(decision.flagged),
    }  # fmt: skip
    if attack == "Pattern":
        # What the rule compares with: in the reconstruction reading not the bare classifier's logits.
        with torch.no_grad():
            before, after = (defense.evidence(some).pre_logits for some in (clean.images, images))
        measured["case 3"] = digits(case_three(before, after, clean.labels))
    return measured


def view(results: Results) -> list[Panel]:
    """One table for each system: a row for each attack, a column for each reading."""
    panels: list[Panel] = []
    for name, (_, every) in SYSTEMS.items():
        readings = [one for one in every if any(results.get(Key(name, one, attack)) for attack in _attacks(name))]
        rows = []
        for attack in _attacks(name):
            measured = [results.get(Key(name, reading, attack)) for reading in readings]
            if any(measured):
                rows.append([attack, *map(_resisted, readings, measured)])
        header = ["attack", *(f"{reading}, resisted" if reading == "abstain" else reading for reading in readings)]
        third = _note(results, name, readings, "Pattern", "case 3")
        # Flagged by the rule, which then answers the class whose logit rose most.
        flagged = _note(results, name, ALU_READINGS, "Decoy", "flagged")
        notes = [f"Successes of pattern that are case 3 of the paper: {third}."] if third else []
        notes += [f"Of the images that decoy broke, flagged: {flagged}."] if flagged else []
        if rows:
            panels.append(
                Table(f"{name}: right answers, percent (abstain: right or rejected)", header, rows, " ".join(notes))
            )
    return panels or [Table.empty("Each attack")]


def _resisted(reading: Reading, measured: Measured | None) -> str:
    """Right answers; where the rule may abstain, rejections too."""
    outcome: str = measured["outcome"] if measured else ""
    return percent(outcome.replace("2", "1") if reading is Reading.ABSTAIN else outcome)


def _note(results: Results, system: str, readings: Iterable[Reading], attack: str, digits: str) -> str:
    """Of the images that were right clean and that this attack broke: how many have these digits, by reading."""
    parts = []
    for reading in readings:
        clean, attacked = (results.get(Key(system, reading, name)) for name in (CLEAN, attack))
        if clean and attacked:
            before, after = clean["outcome"], attacked["outcome"]
            broken = select(select(attacked[digits], before), select(after, before), "0")
            parts += [f"{reading} {percent(broken)}"] if broken else []
    return "; ".join(parts)


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="Each adaptive attack by itself",
    question="Which attack that knows the defence works against which reading?",
    sizes={"calibration": (2_500, 200), "n": (100, 2), "robust": (1, 0)},
    differs="Not in the paper.",
    why="90 attacks on a purifier of 20 steps; budget quick, and only some of them on the robust classifier.",
    leaves_out="Left out: the robust classifier, on which each attack takes minutes.",
)
