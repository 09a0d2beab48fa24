"""learning-rate: accuracy and detection against the rate of the latent steps, for each objective and solver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alu.paper import iterations, store
from alu.paper.base import Cell, Experiment, Sizes, Workbench
from alu.paper.claims import FAILS, Verdict, at_least, at_most, claim, every, gain
from alu.paper.iterations import ATTACKED, CHANCE, CLASSIFIERS, KINDS, NEEDS, PAPERS, PAPERS_READING, READINGS, VAE, Row
from alu.paper.store import PUBLISHED, Measured, MissingCellError, Reading, Results, ones
from alu.paper.views import Charts, Colour, Panel, Table, line_chart, percent
from alu.report.axes import Axes, Scale, powers, shares
from alu.report.charts import Chart

if TYPE_CHECKING:
    from alu.purifiers.solvers import Objective, SolverName

    Setting = tuple[SolverName, Objective]

RATES = (1e-5, 1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 1e-2, 1e-1, 1.0)
QUICK = (1e-4, 1e-2, 1.0)
SMALLEST = 1e-4
"""The smallest rate that the paper tried; ours go further down, to where nothing moves."""
SETTINGS: dict[Setting, Colour] = {
    ("gd", "sse"): Colour.BLUE,
    ("gd", "mse"): Colour.GREEN,
    ("gd", "norm"): Colour.AMBER,
    ("adam", "sse"): Colour.RED,
}
"""Solver and objective; Adam's step does not depend on the objective's scale."""


class Key(store.Key, experiment="learning-rate"):
    """A solver, an objective and a rate."""

    solver: SolverName
    objective: Objective
    rate: float

    def __str__(self) -> str:
        return f"{self.solver}, {self.objective}, {self.rate:g}"


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """One cell for each rate, objective and solver."""
    rates = QUICK if sizes["rates"] == len(QUICK) else RATES
    return [Cell(Key(*setting, rate), NEEDS) for rate in rates for setting in SETTINGS]


def measure(bench: Workbench, key: Key) -> Measured:
    """Answers after all steps at this rate."""
    from alu.purifiers import LatentVAE

    steps = bench.sizes["steps"]
    purifier = LatentVAE(
        VAE, steps=steps, lr=key.rate, solver=key.solver, objective=key.objective, schedule="constant"
    ).to(bench.device)
    held_out = bench.images("cifar10", "calibration", bench.sizes["calibration"])
    return iterations.measure_steps(bench, purifier, str(key), [steps], held_out, bench.test_images())


def _measured(results: Results) -> dict[Setting, dict[float, Measured]]:
    """What was measured, by setting and rate."""
    by_setting = {
        setting: {rate: cell for rate in RATES if (cell := results.get(Key(*setting, rate)))} for setting in SETTINGS
    }
    return {setting: rates for setting, rates in by_setting.items() if rates}


def _row(measured: Measured, classifier: str) -> Row:
    (count,) = measured[classifier]["clean"]
    return iterations.after(measured, classifier, count)


def view(results: Results) -> list[Panel]:
    """For each classifier all solvers and objectives together; for the paper's own, each of them in its axes too."""
    measured = _measured(results)
    panels: list[Panel] = []
    for classifier in CLASSIFIERS if measured else ():
        by = {
            ", ".join(setting): {rate: _row(cell, classifier) for rate, cell in rates.items()}
            for setting, rates in measured.items()
        }
        panels += [_overview(classifier, by, reading) for reading in READINGS]
        if classifier == PAPERS:
            axis = Scale(0.0, 0.01, tuple((tick / 1000, f"{tick}") for tick in (0, 2, 4, 6, 8, 10)))
            for setting, rows in by.items():
                near = {rate: row for rate, row in rows.items() if rate <= axis.high}
                title, paper = "learning rate (E-03)", PUBLISHED["learning rate"]
                panels.append(iterations.sweep(f"{classifier}, {setting}", near, axis, title, PAPERS_READING, paper))
        flat = {f"{setting}, {rate:g}": row for setting, rows in by.items() for rate, row in rows.items()}
        panels += iterations.step_tables(classifier, flat)
    return panels or [Table.empty("Learning rate")]


def _overview(classifier: str, by: dict[str, dict[float, Row]], reading: Reading) -> Charts:
    """One line for each solver and objective, over all rates: attacked images if all were flagged, and how many are."""
    colours = {", ".join(setting): colour for setting, colour in SETTINGS.items()}
    axes = Axes(powers(-5, 0), shares(), "learning rate", "share of images")
    paper = PUBLISHED["learning rate"] if (classifier, reading) == (PAPERS, PAPERS_READING) else {}

    def drawn(key: str, what: str, papers: str) -> Chart:
        ours = [
            iterations.share_curve(setting, colours[setting], rows, ATTACKED, reading, key)
            for setting, rows in by.items()
        ]
        grey = iterations.paper_curves(paper, {papers: what.lower()})
        return line_chart(f"{what}: {classifier}", axes, ours, f"{ATTACKED.heading}, {reading} reading.", grey)

    return (
        drawn("all flagged", "Attacked, if all were flagged", "attacked"),
        drawn("flagged", "Attacked and flagged", "detected"),
    )


@claim("a small learning rate is better", "Smaller learning rates perform better.")
def small_rate(results: Results) -> Verdict:
    """The paper's smallest rate beside the best larger one, wherever ALU works; deployed, and as in its figure."""
    figures, findings = [f"{PAPERS}, {ATTACKED.heading}, {PAPERS_READING}"], []
    measured = _measured(results)
    for setting in SETTINGS:
        for kind, name in KINDS.items():
            by = {
                rate: _row(cell, PAPERS)[ATTACKED][PAPERS_READING][kind]
                for rate, cell in measured.get(setting, {}).items()
                if rate >= SMALLEST
            }
            if SMALLEST not in by or len(by) < 2:
                raise MissingCellError("learning-rate")
            small = by[SMALLEST]
            best = max((rate for rate in by if rate > SMALLEST), key=lambda rate: ones(by[rate]).value)
            works = at_least(max(map(ones, by.values()), key=lambda share: share.value), CHANCE)
            if works:
                findings.append(at_most(gain(by[best], small), 0.03))
            two = f"{percent(small)} at {SMALLEST:g}, best {percent(by[best])} at {best:g}"
            aside = "" if works else " (not above chance: not counted)"
            figures.append(f"{', '.join(setting)}, {name}: {two}{aside}")
    rule = "To hold: wherever ALU is above chance, no larger rate is better by more than 3 points."
    return Verdict(every(findings) if findings else FAILS, figures, rule)


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="Accuracy and detection against the learning rate",
    question="Is a small learning rate better, and where does detection collapse?",
    sizes={"n": (100, 20), "calibration": (1_000, 200), "steps": (50, 10), "rates": (len(RATES), len(QUICK))},
    differs=(
        "The paper names neither the optimiser nor the scale of the objective: all are swept, down to rates at which "
        "nothing moves (gradient descent on the mean square equals that on the sum at 1/3,072 of the rate). Its points "
        "are after N = 100 steps, ours after 50. Its accuracies assume that every attacked image is flagged."
    ),
    why=(
        "36 settings of 50 steps each, which are enough according to the paper. A threshold from 1,000 images varies "
        "by a point or two with the choice of images."
    ),
    claims=(small_rate,),
)
