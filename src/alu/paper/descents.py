"""Descents: what ALU answers after several numbers of latent steps, measured on the way down and drawn as curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from alu.paper.base import System
from alu.paper.published import Curve
from alu.paper.store import ALU_READINGS, Column, Measured, Reading, digits, ones
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
    from alu.defense import Defense
    from alu.detectors import LogitShift
    from alu.loading import READINGS as RULES
    from alu.paper.workbench import purified_answer, rule_answers

    descend = partial(_descend, bench, purifier, name, counts)
    # The steps do not ask the classifier: clean images go down once for all of them.
    shared = {images.name: descend(images, CLASSIFIERS) for images in (held_out, clean)}
    measured: Measured = {"calibration": len(held_out), "n": len(clean)}
    for classifier in CLASSIFIERS:
        network = bench.classifier(classifier)
        defenses = {
            at: Defense(network, purifier, LogitShift(), *RULES[at[1]]).calibrate_on(evidence)
            for at, evidence in shared[held_out.name][classifier].items()
        }
        measured[classifier] = {}
        for column in COLUMNS:
            images = bench.attacked_as(column, System(classifier, VAE), clean)
            seen = shared.get(images.name) or descend(images, (classifier,))
            rows: dict[str, dict[str, Any]] = {}
            for (count, reading), evidence in seen[classifier].items():
                defense, row = defenses[count, reading], rows.setdefault(str(count), {})
                row["purified"] = digits(purified_answer(evidence) == images.labels)
                row[reading] = rule_answers(defense, evidence, images.labels) | _scores(defense, evidence)
            measured[classifier][column] = rows
    return measured


def _descend(
    bench: Workbench,
    purifier: LatentVAE,
    name: str,
    counts: Sequence[int],
    images: ImageSet,
    classifiers: Sequence[str],
) -> dict[str, dict[tuple[int, Reading], Evidence]]:
    """For each classifier the evidence of both readings after each number of steps.

    Purified images are not kept, so that many numbers fit in memory: the score needs logits only.
    """
    import torch

    from alu.decision import Evidence
    from alu.defense import batched_logits

    after: dict[tuple[str, int], list[Tensor]] = {(one, count): [] for one in classifiers for count in counts}
    again: dict[str, list[Tensor]] = {one: [] for one in classifiers}
    for start in range(0, len(images), 100):
        bench.watch(f"{name}, {images.name}", start, len(images))
        some = images.images[start : start + 100]
        with torch.no_grad():
            rebuilt, outputs = purifier.reconstructed(some), purifier.outputs(some, counts)
        for one in classifiers:
            again[one].append(batched_logits(bench.classifier(one), rebuilt))
            for count, output in zip(counts, outputs, strict=True):
                after[one, count].append(batched_logits(bench.classifier(one), output))
    bench.watch(f"{name}, {images.name}", len(images), len(images))
    seen: dict[str, dict[tuple[int, Reading], Evidence]] = {one: {} for one in classifiers}
    for (one, count), parts in after.items():
        before = {Reading.INPUT: bench.logits(one, images), Reading.RECONSTRUCTION: torch.cat(again[one])}
        for reading in ALU_READINGS:
            seen[one][count, reading] = Evidence(images.images, images.images, before[reading], torch.cat(parts))
    return seen


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
