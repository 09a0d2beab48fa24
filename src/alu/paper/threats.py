"""threats: one row for each kind of attacker, for the card in the README."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alu.paper import store
from alu.paper.base import EPS, SUITE, Cell, Experiment, ImageSet, Sizes, System, Workbench
from alu.paper.store import Column, Measured, Reading, Results, both, incomplete, ones, outcomes
from alu.paper.views import Colour, Panel, Table, dot, dot_chart, percent

if TYPE_CHECKING:
    from alu.defense import Defense

SYSTEM, OTHER = System("cifar10-standard", "cifar10-vae"), "cifar10-unified"
SURROGATE, ADAPTIVE = "surrogate", "adaptive"
ATTACKERS = {
    "no attack": "",
    "oblivious": "PGD-20 on the classifier, 8/255; knows nothing of the defence",
    "transfer": "momentum PGD-20 on another network (fine-tuned from this one)",
    "query": "no gradients: Square with 500 queries on each of two soft answers of a copy with fewer steps; the images "
    "it finds are then given to the deployed defence",
    SURROGATE: "PGD-20 on f(D(E)), which the paper calls white-box",
    ADAPTIVE: "knows everything; union of all attacks, budget quick",
}
"""What each attacker does."""
READINGS = {
    Reading.BARE: ("bare classifier", Colour.SLATE),
    Reading.INPUT: ("ALU, input reading", Colour.BLUE),
    Reading.RECONSTRUCTION: ("ALU, reconstruction", Colour.PURPLE),
    Reading.PURIFIED: ("purified only", Colour.GREEN),
    Reading.GRADED: ("rule graded", Colour.TEAL),
}


class Key(store.Key, experiment="threats"):
    """A reading against an attacker."""

    reading: Reading
    attacker: str


MEANINGLESS = Key(Reading.BARE, SURROGATE)
"""The surrogate attack is about the purifier, of which the bare classifier has none."""


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """Every attacker against both readings, against the purified answer, and against the bare classifier."""
    keys = [Key(reading, attacker) for reading in READINGS for attacker in ATTACKERS]
    needs, versions = {"transfer": (*SYSTEM.needs, OTHER)}, {ADAPTIVE: SUITE}
    return [
        Cell(key, needs.get(key.attacker, SYSTEM.needs), versions.get(key.attacker, 1))
        for key in keys
        if key != MEANINGLESS
    ]


def measure(bench: Workbench, key: Key) -> Measured:
    """Right, wrong or rejected for each image, clean and attacked; or what the adaptive suite leaves."""
    from alu.defense import Defense
    from alu.purifiers import Identity

    clean = bench.test_images("query" if key.attacker == "query" else "n")
    if key.attacker == ADAPTIVE:
        return bench.union(bench.target(SYSTEM, key.reading), clean)
    bare = Defense(bench.classifier(SYSTEM.classifier), Identity(), rule="purified")
    defense = bare if key.reading is Reading.BARE else bench.defense(SYSTEM, key.reading)
    decisions = [defense.decide(images.images) for images in (clean, _attacked(bench, key, defense, clean))]
    before, after = (outcomes(decision, clean.labels) for decision in decisions)
    return {"n": len(clean), "clean": before, "attacked": after}


def _attacked(bench: Workbench, key: Key, defense: Defense, clean: ImageSet) -> ImageSet:
    """The attacker's images; who attacks something else than the defence makes the same for all of its readings."""
    from alu.attacks import MIM
    from alu.attacks.adaptive import Query

    if key.attacker == "oblivious":
        return bench.attacked_as(Column.PGD_ON_F, SYSTEM, clean)
    if key.attacker == SURROGATE:
        return bench.attacked_as(Column.PGD_ON_VAE, SYSTEM, clean)
    if key.attacker == "transfer":
        attack = MIM(steps=20, eps=EPS, seed=bench.seed)
        return bench.attacked("transfer", clean, attack, bench.classifier(OTHER))
    if key.attacker == "query":
        search = Query(steps=20, budget="quick", eps=EPS, seed=bench.seed)
        return bench.attacked(f"query on {key.reading}", clean, search, defense)
    return clean


def card(results: Results) -> Table:
    """One row for each kind of attacker."""
    rows = []
    for attacker, does in ATTACKERS.items():
        cells = [_cell(results, Key(reading, attacker)) for reading in READINGS]
        rows.append([attacker, does, *cells])
    title = "Right clean and right attacked, percent (standard protocol): cifar10-standard behind cifar10-vae, N = 20"
    return Table(title, ["attacker", "what it does", *(name for name, _ in READINGS.values())], rows)


def _cell(results: Results, key: Key) -> str:
    measured = results.get(key)
    if measured:
        return percent(_standing(measured)) + incomplete(measured)
    return "–" if key == MEANINGLESS else results.why_empty(key)


def _standing(measured: Measured) -> str:
    return str(measured["adaptive"]) if "adaptive" in measured else both(measured["clean"], measured["attacked"])


def view(results: Results) -> list[Panel]:
    """The card, and the same as a figure."""
    rows = []
    for attacker in ATTACKERS:
        for reading, (name, colour) in READINGS.items():
            measured = results.get(Key(reading, attacker))
            if measured:
                rows.append(dot(name, ones(_standing(measured)), colour, attacker))
    return [card(results), *dot_chart("What each attacker leaves, standard protocol", rows)]


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="The threat-model card",
    question="What does the bundled defence withstand, depending on what the attacker knows?",
    sizes={"calibration": (2_500, 200), "n": (100, 8), "query": (50, 2)},
    differs="Not in the paper, which has only the oblivious and the surrogate attacker.",
    why="A query attack asks hundreds of times for each image, and every query is purified.",
)
