"""robust-base: what the robust classifiers withstand by themselves, at several radii; every defence in front of one of
them is compared with this."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alu.paper import store
from alu.paper.base import Cell, Experiment, Sizes, System, Tensor, Workbench
from alu.paper.store import Measured, Results, digits
from alu.paper.views import Colour, Panel, Table, curve, percent
from alu.report.axes import Axes, linear, shares
from alu.report.charts import Chart, lines

PINNED = "cifar10-at"
"""The base of the defences that hold: more images, and all of AutoAttack at two radii."""
BASES = {
    PINNED: Colour.BLUE,
    "cifar10-trades": Colour.RED,
    "cifar10-fat": Colour.AMBER,
    "cifar10-gairat": Colour.PURPLE,
    "cifar10-mart": Colour.GREEN,
    "cifar10-awp": Colour.TEAL,
    "cifar100-at": Colour.SLATE,
    "tiny-imagenet-at": Colour.GREY,
}
RADII = (1, 2, 4, 6, 8)
"""In 255ths, smallest first: what breaks an image at one radius breaks it at all larger ones."""
WHOLE = (4, 8)
"""Radii at which the pinned base meets all of AutoAttack; elsewhere APGD on the cross-entropy, then targeted."""


class Key(store.Key, experiment="robust-base"):
    """A classifier on some of the images: part 0 has the first ones."""

    classifier: str
    part: int


def parts(classifier: str, sizes: Sizes) -> range:
    """The parts that a classifier's images are measured in; each is a cell, so that an interruption costs one."""
    return range(sizes["pinned" if classifier == PINNED else "n"] // sizes["part"])


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """Every robust classifier that is bundled, the pinned one first."""
    return [Cell(Key(name, part), (name,)) for name in BASES for part in parts(name, sizes)]


def measure(bench: Workbench, key: Key) -> Measured:
    """Which images stand when clean and at each radius.

    What breaks an image at one radius breaks it at every larger one, so each image has one radius at which it falls.
    A short search from the smallest radius up finds most of them; the strong attacks then go from the largest radius
    down and leave an image where they fail to break it: they would have to find less there than further out.
    """
    from alu.attacks import CWLinf

    model, size = bench.classifier(key.classifier), bench.sizes["part"]
    drawn = bench.images(System(key.classifier, "").dataset, "test", bench.sizes["pinned"])
    here = slice(key.part * size, (key.part + 1) * size)
    images, labels = drawn.images[here], drawn.labels[here]
    clean = standing_now(model, images, labels)
    falls: Tensor = clean.long() * (len(RADII) + 1) - 1  # index of a radius; -1 is clean, the last stands at all
    unsettled = clean.clone()
    names: dict[int, list[str]] = {radius: [] for radius in RADII}

    def attack(at: int, name: str, search: Any) -> None:
        left = (unsettled & (falls > at)).nonzero().flatten()
        names[RADII[at]].append(name)
        if len(left):
            bench.watch(f"{name} on {key.classifier}, {RADII[at]}/255", here.start, len(drawn))
            numbers = [here.start + position for position in left.tolist()]
            attacked = search(model, images[left], labels[left], numbers=numbers)
            falls[left[~standing_now(model, attacked, labels[left])]] = at

    for at, radius in enumerate(RADII):
        attack(at, "margin PGD", CWLinf(eps=radius / 255, steps=bench.sizes["first"], seed=bench.seed))
    for at in reversed(range(len(RADII))):
        for name, search in strong(bench, key.classifier, RADII[at]):
            attack(at, name, search)
        unsettled &= falls <= at
    stands = {str(radius): digits(falls > at) for at, radius in enumerate(RADII)}
    return {
        "n": len(labels), "clean": digits(clean), "stands": stands,
        "attacks": {str(radius): tried for radius, tried in names.items()},
    }  # fmt: skip


def standing_now(model: Any, images: Tensor, labels: Tensor) -> Tensor:
    """Whether the classifier is right [N]."""
    from alu.defense import batched_logits

    return batched_logits(model, images).argmax(1) == labels


def strong(bench: Workbench, classifier: str, radius: int) -> Iterator[tuple[str, Any]]:
    """The strong attacks at a radius, cheap ones first."""
    from alu.attacks import APGDCE, APGDT, AutoAttack

    same: dict[str, Any] = {"eps": radius / 255, "seed": bench.seed}
    if classifier == PINNED and radius in WHOLE and bench.sizes["whole"]:
        yield "AutoAttack", AutoAttack(**same)
        return
    yield "APGD", APGDCE(steps=bench.sizes["steps"], **same)
    yield "targeted APGD", APGDT(steps=bench.sizes["steps"], **same)


def standing(results: Results, classifier: str) -> dict[int, str]:
    """Digits of the images that stand at each radius, in order; radius 0 is clean. Empty where a part is missing."""
    sizes: Sizes = results.experiments.get(Key.experiment, {}).get("sizes", {})
    found = [results.get(Key(classifier, part)) for part in (parts(classifier, sizes) if sizes else ())]
    if not found or any(cell is None for cell in found):
        return {}
    whole = [cell for cell in found if cell is not None]
    joined = {0: "".join(cell["clean"] for cell in whole)}
    return joined | {radius: "".join(cell["stands"][str(radius)] for cell in whole) for radius in RADII}


def view(results: Results) -> list[Panel]:
    """Robust accuracy at each radius, as a table and as curves."""
    rows, curves = [], []
    for classifier, colour in BASES.items():
        stands = standing(results, classifier)
        if not stands:
            rows.append([classifier, results.why_empty(Key(classifier, 0))])
            continue
        rows.append([classifier, *map(percent, stands.values())])
        curves.append(curve(classifier, colour, [(radius, store.ones(held)) for radius, held in stands.items()]))
    title = "Right clean and right attacked, percent (standard protocol), by radius in 255ths (L-inf)"
    header = ["classifier", "clean", *map(str, RADII)]
    note = (
        f"Margin PGD-20, then APGD on the cross-entropy and targeted; {PINNED} at 4 and 8: all parts of AutoAttack. An "
        "image that the strong attacks cannot break at one radius counts as standing at all smaller ones."
    )
    axes = Axes(linear(0, RADII[-1]), shares(), "radius, 1/255", "share of images")
    charts: list[Panel] = [(Chart(title, lines(axes, title, curves), [*BASES.items()]),)] if curves else []
    return [Table(title, header, rows, note), *charts]


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="The robust classifiers by themselves",
    question="How many images does each robust classifier get right under attack, by radius?",
    sizes={
        "pinned": (1_000, 20),
        "n": (500, 10),
        "part": (100, 10),
        "first": (20, 5),
        "steps": (100, 5),
        "whole": (1, 0),
    },
    differs="Not in the paper, which has one radius.",
    leaves_out="The quick form leaves AutoAttack out.",
    why="Targeted attacks make nine searches of a hundred steps for each image that still stands.",
)
