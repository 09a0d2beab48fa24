"""whole-suite: what all attacks together leave of the bundled defences, with both budgets."""

from __future__ import annotations

from alu.paper import store
from alu.paper.base import SUITE, Cell, Experiment, Sizes, System, Workbench
from alu.paper.each_attack import CLEAN, VERSIONS, under_attack
from alu.paper.store import Column, Measured, Reading, Results, digits, incomplete
from alu.paper.views import Panel, Table, percent

SUBJECTS = (
    ("cifar10-vae", Reading.INPUT), ("cifar10-vae", Reading.RECONSTRUCTION), ("cifar10-vae", Reading.PURIFIED),
    ("cifar10-pca", Reading.INPUT), ("cifar10-pca", Reading.PURIFIED),
)  # fmt: skip
"""Purifier and reading; a projection has no reconstruction."""
OBLIVIOUS = Column.PGD_ON_F
AIMED = ("Decoy", "Boost")
"""Attacks on the rule itself, each by itself on all images: where a reading has the rule and looks at the input."""
SINGLE = {CLEAN: "clean", OBLIVIOUS: "PGD-20 on f, paper protocol", "Decoy": "decoy", "Boost": "boost"}
BUDGETS = {"standard": "n", "quick": "few"}
"""Budget of a union, and which size says how many images it is given."""


class Key(store.Key, experiment="whole-suite"):
    """A purifier in one reading, under one attack or under the suite with a budget."""

    purifier: str
    reading: Reading
    column: str

    def __str__(self) -> str:
        return f"{self.purifier}, {self.reading}/{self.column}"


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """For each defence: clean, the attacks aimed at its rule, PGD-20 on the classifier, and both unions."""
    listed = []
    for purifier, reading in SUBJECTS:
        needs = _system(purifier).needs
        for attack in (CLEAN, *(AIMED if reading is Reading.INPUT else ()), OBLIVIOUS):
            listed.append(Cell(Key(purifier, reading, attack), needs, VERSIONS.get(attack, 1)))
        for budget in BUDGETS if sizes["standard"] else ("quick",):
            listed.append(Cell(Key(purifier, reading, budget), needs, SUITE))
    return listed


def _system(purifier: str) -> System:
    return System("cifar10-standard", purifier)


def measure(bench: Workbench, key: Key) -> Measured:
    """The answers under one attack, or what the suite leaves."""

    system = _system(key.purifier)
    if key.column in BUDGETS:
        images = bench.test_images(BUDGETS[key.column])
        return bench.union(bench.defense(system, key.reading), images, "quick" if key.column == "quick" else "standard")
    if key.column != OBLIVIOUS:
        return under_attack(bench, system, key.reading, key.column)
    images = bench.attacked_as(OBLIVIOUS, system, bench.test_images())
    decision = bench.decision(system, key.reading, images)
    return {"n": len(images), "outcome": digits(decision.label == images.labels), "flagged": digits(decision.flagged)}


def view(results: Results) -> list[Panel]:
    """A row for each defence: clean, under an attack that does not know it, under two that do, under all together."""
    rows = []
    for purifier, reading in SUBJECTS:
        single = [results.get(Key(purifier, reading, attack)) for attack in SINGLE]
        unions = [results.get(Key(purifier, reading, budget)) for budget in BUDGETS]
        if any((*single, *unions)):
            left = [percent(union["adaptive"]) + incomplete(union) if union else "–" for union in unions]
            each = [percent(cell["outcome"]) if cell else "–" for cell in single]
            rows.append([f"{purifier}, {reading}", *each, *left])
    header = ["purifier, reading", *SINGLE.values(), *(f"all attacks, budget {budget}" for budget in BUDGETS)]
    note = "All attacks together in the standard protocol: right clean and right under each of them."
    return [Table("Right answers, percent", header, rows, note) if rows else Table.empty("Right answers, percent")]


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="All attacks together",
    question="What do all attacks together leave of a bundled defence, and does the quick budget show it?",
    sizes={"calibration": (2_500, 200), "n": (200, 4), "few": (60, 4), "standard": (1, 0)},
    differs="Not in the paper, which tries no attack on its rule.",
    why="With n = 200, zero survivors has a 95 % upper bound of 1.9 %.",
    leaves_out="Left out: budget standard.",
)
