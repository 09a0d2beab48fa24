"""Descents: what ALU answers after several numbers of latent steps, measured on the way down and drawn as curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alu.paper.base import System
from alu.paper.published import Curve
from alu.paper.store import ALU_READINGS, Column, Measured, Reading, ones
from alu.paper.views import Chart, Colour, Panel, Table, percent, side_by_side
from alu.report.axes import Axes, Scale, shares
from alu.report.charts import Line, Mark, chart, lines

if TYPE_CHECKING:
    from torch import Tensor

    from alu.decision import Evidence
    from alu.defense import Defense
    from alu.paper.workbench import ImageSet, Workbench
    from alu.purifiers import LatentVAE

VAE, PAPERS = "cifar10-vae", "cifar10-unified"
"""`PAPERS` is the classifier of the paper's ablations: their clean accuracy is that of Unified ALU in its tables."""
CLASSIFIERS = (PAPERS, "cifar10-standard", "cifar10-at")
"""The paper's, and two others that see the same steps."""
NEEDS = (*CLASSIFIERS, VAE)
COLUMNS = (Column.CLEAN, Column.PGD_ON_F, Column.PGD_ON_VAE)
ATTACKED = Column.PGD_ON_VAE
"""The attack of the paper's ablations."""
PAPERS_READING = Reading.RECONSTRUCTION
"""The reading that the paper's figures fit."""
READINGS = (PAPERS_READING, Reading.INPUT)
KINDS = {"all flagged": "if all were flagged", "alu": "deployed"}
CHANCE = 0.1
"""Of ten classes."""
Row = dict[str, Any]
"""By column, what one setting gave."""


def measure_steps(
    bench: Workbench, purifier: LatentVAE, name: str, counts: Sequence[int], held_out: ImageSet, clean: ImageSet
) -> Measured:
    """For each classifier, column and number of steps: the purified answer, and both readings.

    The threshold of each comes from held-out clean images that went the same way; `name` tells purifiers apart.
    """
    from alu.paper.workbench import digits, purified_answer, rule_answers

    # The steps do not ask the classifier: clean images go down once for all of them.
    shared = {images.name: _logits(bench, purifier, name, images, counts, CLASSIFIERS) for images in (held_out, clean)}
    measured: Measured = {"calibration": len(held_out), "n": len(clean)}
    for classifier in CLASSIFIERS:
        defenses = _calibrated(bench, purifier, classifier, held_out, shared[held_out.name][classifier])
        measured[classifier] = {}
        for column in COLUMNS:
            images = bench.attacked_as(column, System(classifier, VAE), clean)
            logits = shared.get(images.name) or _logits(bench, purifier, name, images, counts, (classifier,))
            rows: dict[str, dict[str, Any]] = {}
            for (count, reading), evidence in _evidence(bench, classifier, images, logits[classifier]).items():
                defense, row = defenses[count, reading], rows.setdefault(str(count), {})
                row["purified"] = digits(purified_answer(evidence) == images.labels)
                row[reading] = rule_answers(defense, evidence, images.labels) | _scores(defense, evidence)
            measured[classifier][column] = rows
    return measured


Logits = tuple[dict[int, "Tensor"], "Tensor"]
"""A classifier's logits after each number of steps, and of the reconstruction."""


def _logits(
    bench: Workbench,
    purifier: LatentVAE,
    name: str,
    images: ImageSet,
    counts: Sequence[int],
    classifiers: Sequence[str],
) -> dict[str, Logits]:
    """Logits of each classifier after each number of steps; images are not kept, so that many numbers fit in memory."""
    import torch

    from alu.defense import batched_logits

    after: dict[str, dict[int, list[Tensor]]] = {one: {count: [] for count in counts} for one in classifiers}
    again: dict[str, list[Tensor]] = {one: [] for one in classifiers}
    for start in range(0, len(images), 100):
        bench.watch(f"{name}, {images.name}", start, len(images))
        some = images.images[start : start + 100]
        with torch.no_grad():
            rebuilt, outputs = purifier.reconstructed(some), purifier.outputs(some, counts)
        for classifier in classifiers:
            network = bench.classifier(classifier)
            again[classifier].append(batched_logits(network, rebuilt))
            for count, output in zip(counts, outputs, strict=True):
                after[classifier][count].append(batched_logits(network, output))
    bench.watch(f"{name}, {images.name}", len(images), len(images))
    return {
        classifier: ({count: torch.cat(parts) for count, parts in by_count.items()}, torch.cat(again[classifier]))
        for classifier, by_count in after.items()
    }


def _evidence(
    bench: Workbench, classifier: str, images: ImageSet, logits: Logits
) -> dict[tuple[int, Reading], Evidence]:
    """Evidence of both readings at each number of steps, without the purified images: the score needs logits only."""
    from alu.decision import Evidence

    after, again = logits
    before = {Reading.INPUT: bench.logits(classifier, images), Reading.RECONSTRUCTION: again}
    return {
        (count, reading): Evidence(images.images, images.images, before[reading], last)
        for count, last in after.items()
        for reading in ALU_READINGS
    }


def _calibrated(
    bench: Workbench, purifier: LatentVAE, classifier: str, held_out: ImageSet, logits: Logits
) -> dict[tuple[int, Reading], Defense]:
    """A defence for each number of steps and reading, with its own threshold."""
    from alu.defense import Defense
    from alu.detectors import LogitShift
    from alu.loading import READINGS as RULES

    network, defenses = bench.classifier(classifier), {}
    for at, evidence in _evidence(bench, classifier, held_out, logits).items():
        defenses[at] = Defense(network, purifier, LogitShift(), *RULES[at[1]]).calibrate_on(evidence)
    return defenses


def _scores(defense: Defense, evidence: Evidence) -> dict[str, Any]:
    """How far scores lie from the threshold: a quarter, half and three quarters of the images lie below these."""
    assert defense.detector is not None
    threshold = float(defense.detector.threshold_)
    # Where no image moves the threshold is 0, and no score is divided by it.
    relative = defense.judge(evidence).score / max(threshold, 1e-12)
    quartiles = relative.quantile(relative.new_tensor([0.25, 0.5, 0.75])).tolist()
    return {"score / threshold": [_digits(value) for value in quartiles], "threshold": _digits(threshold)}


def _digits(value: float) -> float:
    """Four of them: at small rates a score is a millionth."""
    return float(f"{value:.4g}")


def classifiers_of(measured: Measured) -> list[str]:
    """The classifiers that a cell was measured on."""
    return [name for name in CLASSIFIERS if name in measured]


def after(measured: Measured, classifier: str, count: str) -> Row:
    """What a classifier answered after so many steps, by column."""
    return {column: measured[classifier][column][count] for column in COLUMNS}


def curve(label: str, colour: str, rows: Mapping[Any, Row], digits: Callable[[Row], str]) -> Line:
    """A line through the share of ones among the digits of each row."""
    marks = []
    for at, row in sorted(rows.items()):
        value = ones(digits(row))
        says = f"{label}, {at:g}: {percent(value)}"
        marks.append(Mark(f"{label}/{at}", float(at), value.value, says, value.interval))
    return Line(label, colour, [(mark.x, mark.y) for mark in marks], marks)


def paper_curves(paper: Curve, names: dict[str, str]) -> list[Line]:
    """The paper's points in grey, as far as it has them."""
    grey = []
    for key, label in names.items():
        if key in paper:
            marks = [Mark(f"paper/{key}/{at}", at, y, f"the paper, {label}: {100 * y:.1f} %") for at, y in paper[key]]
            grey.append(Line(f"the paper, {label}", Colour.GREY, paper[key], marks))
    return grey


def curves_chart(caption: str, x: Scale, title: str, ours: list[Line], paper: list[Line], reading: Reading) -> str:
    """Our curves over the paper's, against `title`."""
    legend = [(line.name, line.colour) for line in ours] + ([("the paper", Colour.GREY)] if paper else [])
    drawing = lines(Axes(x, shares(), title, "share of images"), caption, [*paper, *ours])
    return chart(caption, drawing, legend, f"{ATTACKED.heading}, {reading} reading.")


def sweep(name: str, rows: Mapping[Any, Row], x: Scale, title: str, reading: Reading, paper: Curve) -> Chart:
    """Two charts: accuracy if no clean image and every attacked one were flagged, as in the paper's figures, with the
    deployed one beside it; and detection. The paper's figures fit the reconstruction reading: its points are there."""
    accuracy = [
        curve("clean, if none were flagged", Colour.GREEN, rows, lambda row: row["clean"]["purified"]),
        curve("clean, deployed", Colour.BLUE, rows, lambda row: row["clean"][reading]["alu"]),
        curve("attacked, if all were flagged", Colour.RED, rows, lambda row: row[ATTACKED][reading]["all flagged"]),
        curve("attacked, deployed", Colour.PURPLE, rows, lambda row: row[ATTACKED][reading]["alu"]),
    ]
    detection = [
        curve("attacked images flagged", Colour.RED, rows, lambda row: row[ATTACKED][reading]["flagged"]),
        curve("clean images not flagged", Colour.BLUE, rows, lambda row: _inverse(row["clean"][reading]["flagged"])),
    ]
    seen = {"clean": "clean, if none were flagged", "attacked": "attacked, if all were flagged"}
    caught = {"detected": "attacked images flagged", "clean not flagged": "clean not flagged"}
    drawn = [
        curves_chart(f"{what} against the {title}: {name}", x, title, ours, paper_curves(paper, names), reading)
        for what, ours, names in (("Accuracy", accuracy, seen), ("Detection", detection, caught))
    ]
    return side_by_side(*drawn)


def _inverse(digits: str) -> str:
    return digits.translate(str.maketrans("01", "10"))


def step_tables(name: str, rows: dict[str, Row]) -> list[Panel]:
    """A folded table for each reading."""
    attacks = [Column.PGD_ON_F.heading, ATTACKED.heading]
    header = ["", "clean", "false alarms", *attacks, "the same, if all were flagged", "flagged"]
    panels: list[Panel] = []
    for reading in READINGS:
        table = []
        for at, row in rows.items():
            clean, on_f, through = (row[column][reading] for column in COLUMNS)
            attacked = [through[key] for key in ("alu", "all flagged", "flagged")]
            table.append([at, *map(percent, [clean["alu"], clean["flagged"], on_f["alu"], *attacked])])
        panels.append(Table(f"{name}, {reading} reading: percent of images", header, table, folded=True))
    return panels
