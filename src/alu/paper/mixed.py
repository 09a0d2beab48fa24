"""mixed: a standard and a robust classifier as one (MixedNUTS), beside the robust one alone, on the same images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alu.paper import store
from alu.paper.base import EPS, Cell, Experiment, Sizes, Tensor, Workbench
from alu.paper.store import Measured, Results, digits
from alu.paper.views import Panel, Table, percent, points
from alu.stats import mean_difference

STANDARD, ROBUST = "cifar10-standard", "cifar10-at"
NUMBERS = {"alpha": 0.6944, "scale": 2.0, "shift": 0.0, "power": 6.0}
"""Chosen on calibration and validation images: the largest alpha tried that wins about six points clean.
docs/lab-log.md has the others."""
GAIN, COST = 6.0, -2.0
"""It is worth having if it wins so many points clean for no more than this robust."""


class Key(store.Key, experiment="mixed"):
    """Some of the images: part 0 has the first ones."""

    part: int


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """The parts that the images are measured in; each is a cell, so that an interruption costs one."""
    return [Cell(Key(part), (STANDARD, ROBUST)) for part in range(sizes["n"] // sizes["part"])]


def measure(bench: Workbench, key: Key) -> Measured:
    """Which images stand when clean and after each attack, for the mixture and for its robust part alone."""
    from alu.evaluation.suite import on_parts
    from alu.models import Mixed

    size, steps = bench.sizes["part"], bench.sizes["steps"]
    same: dict[str, Any] = {"eps": EPS, "seed": bench.seed, "batch_size": size}
    robust = bench.classifier(ROBUST)
    mixture = Mixed(bench.classifier(STANDARD), robust, **NUMBERS).eval()
    both = [(entry.name, entry.attack) for entry in on_parts(mixture, mixture, steps, same)]
    usual = on_output(bench.sizes, same)
    here = slice(key.part * size, (key.part + 1) * size)
    return {
        "n": size,
        "mixed": standing(bench, mixture, "the mixture", here, [*both, *usual]),
        "robust": standing(bench, robust, ROBUST, here, usual),
    }


def on_output(sizes: Sizes, same: dict[str, Any]) -> list[tuple[str, Any]]:
    """The attacks that both meet: margin PGD, then AutoAttack part by part."""
    from alu.attacks import APGDCE, APGDT, FAB, CWLinf, Square

    steps, targets = sizes["steps"], sizes["targets"]
    return [
        ("margin PGD", CWLinf(steps=steps, **same)),
        ("APGD", APGDCE(steps=steps, **same)),
        ("targeted APGD", APGDT(steps=steps, targets=targets, **same)),
        ("FAB", FAB(steps=steps, targets=targets, **same)),
        ("Square", Square(queries=sizes["queries"], **same)),
    ]


def standing(
    bench: Workbench, model: Any, name: str, here: slice, attacks: Iterable[tuple[str, Any]]
) -> dict[str, Any]:  # fmt: skip
    """Digits of the images that stand clean, and after each attack with all before it."""
    from alu.defense import batched_logits

    drawn = bench.images("cifar10", "test", bench.sizes["n"])
    images, labels = drawn.images[here], drawn.labels[here]
    stands: Tensor = batched_logits(model, images).argmax(1) == labels
    measured: dict[str, Any] = {"clean": digits(stands), "after": {}}
    for attack_name, attack in attacks:
        left = stands.nonzero().flatten()
        if len(left):
            bench.watch(f"{attack_name} on {name}", here.start, len(drawn))
            numbers = [here.start + at for at in left.tolist()]
            attacked = attack(model, images[left], labels[left], numbers=numbers)
            stands[left] = batched_logits(model, attacked).argmax(1) == labels[left]
        measured["after"][attack_name] = digits(stands)
    return measured


def joined(results: Results) -> dict[str, dict[str, str]]:
    """By system, the digits clean and after each attack, over all parts; empty where a part is missing."""
    sizes: Sizes = results.experiments.get(Key.experiment, {}).get("sizes", {})
    found = [results.get(cell.key) for cell in (cells(sizes) if sizes else [])]
    whole = [cell for cell in found if cell is not None]
    if not whole or len(whole) < len(found):
        return {}
    return {
        system: {"clean": "".join(cell[system]["clean"] for cell in whole)}
        | {name: "".join(cell[system]["after"][name] for cell in whole) for name in whole[0][system]["after"]}
        for system in ("mixed", "robust")
    }


def view(results: Results) -> list[Panel]:
    """Both, with the paired difference and what was asked of it; then what each attack leaves of the mixture."""
    found = joined(results)
    title = "Right clean, and right under every attack at 8/255 (L-inf), percent (standard protocol)"
    header = ["", "clean", "under attack"]
    if not found:
        return [Table(title, header, [["mixed", results.why_empty(Key(0))]])]
    ends = {system: (after["clean"], list(after.values())[-1]) for system, after in found.items()}
    pairs = zip(ends["mixed"], ends["robust"], strict=True)
    change = [mean_difference(list(map(int, ours)), list(map(int, theirs))) for ours, theirs in pairs]
    rows = [
        [f"{ROBUST} alone", *map(percent, ends["robust"])],
        [f"mixed with {STANDARD}", *map(percent, ends["mixed"])],
        ["difference", *map(points, change)],
        ["asked", f"at least {GAIN:+g}", f"at least {COST:+g}"],
    ]
    passed = 100 * change[0].value >= GAIN and 100 * change[1].value >= COST
    note = f"The mixture {'passes' if passed else 'does not pass'}. Both meet the same attacks on their output."
    after = [[name, percent(held)] for name, held in found["mixed"].items()]
    each = "What is left of the mixture after each attack and all before it, percent"
    return [Table(title, header, rows, note), Table(each, ["attack", "right"], after)]


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="A standard and a robust classifier, mixed",
    question="Does mixing win clean accuracy without losing robust accuracy, under attacks that know the mixture?",
    sizes={"n": (500, 10), "part": (100, 10), "steps": (50, 5), "targets": (9, 3), "queries": (2_000, 50)},
    differs="Not in the paper. The mixture was fitted on calibration and validation images.",
    why="Every attack on the mixture runs two networks, and a third of the images meets all of them.",
)
