"""rebreak: is what our suite leaves of a method as little as what the literature leaves of it? Computed from the cells
of table 3 and table 2."""

from __future__ import annotations

from alu.paper import store, table2, table3
from alu.paper.base import Experiment, Workbench
from alu.paper.claims import gain
from alu.paper.store import Measured, Reading, Results, answer, incomplete
from alu.paper.table3 import ADAPTIVE, Images
from alu.paper.views import Panel, Table, percent, points
from alu.stats import Estimate

BASES = {table3.AT: "Adversarial training alone", table3.SOAP: table3.SOAP_BASE}
"""Rows of table 3 that are the base of others, by their classifier; the standard classifier's is in table 2."""


class Key(store.Key, experiment="rebreak"):
    """It has no cells of its own."""

    row: str


def measure(bench: Workbench, key: Key) -> Measured:
    """Never called: there are no cells."""
    raise NotImplementedError(key)


def base_left(results: Results, row: str) -> str:
    """What every attack together leaves of a method's classifier without the method, where that was measured."""
    classifier = table3.ROWS[row][0].classifier
    if classifier in BASES:
        base = BASES[classifier]
        return table3.left_of(results, base) if results.get(table3.Key(base, ADAPTIVE)) else ""
    known = results.get(table2.Key(classifier, store.Adaptive(Reading.BARE)))
    return table2.standing(results, classifier, Reading.BARE) if known else ""


def published(known: dict[str, list[float | None]], what: str) -> float | None:
    """A published gain in points, where its base is known."""
    figure, base = known[what]
    return None if figure is None or base is None else figure - base


def lost(claimed: float | None, left: float | None) -> float | None:
    """Which share of a gain is gone; None where there was none to lose."""
    return None if claimed is None or left is None or claimed <= 0 else 1.0 - left / claimed


def row_of(results: Results, name: str) -> list[str]:
    """One method: its base here, the gains, what is left of them, and whether ours is as damning."""
    known, path = store.PUBLISHED["claims of others"][name], table3.ROWS[name][1].path
    cell = results.get(table3.Key(name, Images(known["under"])))
    union, base = results.get(table3.Key(name, ADAPTIVE)), base_left(results, name)
    if cell is None:
        return [name, results.why_empty(table3.Key(name, Images.CLEAN))]
    claimed = gain(answer(cell, *path), cell["bare"])
    left = gain(table3.left_of(results, name), base) if union and base else None
    elsewhere = published(known, "claimed"), published(known, "left")
    shares = lost(claimed.value, left.value if left else None), lost(*elsewhere)
    return [
        name, table3.ROWS[name][0].classifier, percent(base), _points(elsewhere[0]), points(claimed),
        _points(elsewhere[1]), (points(left) if left else "–") + incomplete(union or {}), *map(_share, shares),
        _as_damning(claimed, left, *shares),
    ]  # fmt: skip


def _points(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1f} points"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _as_damning(claimed: Estimate, left: Estimate | None, here: float | None, elsewhere: float | None) -> str:
    """Whether at least as large a share of the gain is lost here; a gain that may be nothing has nothing to lose."""
    if left is None:
        return "–"
    if claimed.interval[0] <= 0:
        return "no gain here to begin with"
    if here is None or elsewhere is None:
        return "yes" if left.interval[0] <= 0 else "a gain is left"
    return "yes" if here >= min(elsewhere, 1.0) or left.interval[0] <= 0 else "no"


def view(results: Results) -> list[Panel]:
    """A row for every method with a published break."""
    header = [
        "method", "base here", "base, every attack", "claimed gain, published", "here, under the same attack",
        "gain left, published", "here, every attack", "lost here", "lost, published", "as damning",
    ]  # fmt: skip
    note = (
        "A gain is what a method adds to its own classifier on the same images: under the attack that its authors "
        "claim to withstand, and under every attack together (standard protocol). As damning: at least as large a "
        "share of the gain is lost here as in the literature, or what is left may be nothing (95 % interval)."
    )
    rows = [row_of(results, name) for name in store.PUBLISHED["claims of others"]]
    return [Table("CIFAR-10: methods that were broken before, broken again", header, rows, note)]


EXPERIMENT = Experiment(
    Key,
    lambda sizes: [],
    measure,
    view,
    title="Methods that others have broken, broken again",
    question="Does our suite leave as little of them as the literature does?",
    sizes={},
    differs=(
        "Not in the paper, which compares with these methods by their own claims. Our versions are small networks, so "
        "gains over their own base are compared, not accuracies."
    ),
    why="It measures nothing itself.",
    computed_from=("table3", "table2"),
)
