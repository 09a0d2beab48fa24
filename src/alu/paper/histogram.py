"""histogram: the score sum |Δ| on training, test and attacked images, with the paper's threshold and ours."""

from __future__ import annotations

from collections.abc import Sequence

from alu.paper import adaptive, store
from alu.paper.base import Cell, Experiment, ImageSet, System, Workbench
from alu.paper.claims import Finding, Status, Verdict, at_least, at_most, best_case, by_attacker, claim, every
from alu.paper.store import ALU_READINGS, Column, Measured, Reading, Results, ones
from alu.paper.views import Colour, Panel, Table, percent
from alu.report.charts import Chart, Group, histogram
from alu.stats import Share, conformal_threshold, quantile

SYSTEM = System("cifar10-standard", "cifar10-vae")
TRAIN, HELD_OUT = "train", "calibration"
SHOWN = {
    TRAIN: ("training images", Colour.GREEN),
    Column.CLEAN: ("test images", Colour.BLUE),
    Column.PGD_ON_F: (Column.PGD_ON_F.heading, Colour.RED),
    Column.PGD_ON_VAE: (Column.PGD_ON_VAE.heading, Colour.PURPLE),
    Column.AUTOATTACK_ON_F: (Column.AUTOATTACK_ON_F.heading, Colour.AMBER),
    Column.AUTOATTACK_ON_VAE: (Column.AUTOATTACK_ON_VAE.heading, Colour.TEAL),
}


class Key(store.Key, experiment="histogram"):
    """Training images, held-out ones, or test images of a column."""

    images: Column | str


def measure(bench: Workbench, key: Key) -> Measured:
    """The score of each image in both readings."""
    images = _images(bench, key.images)
    measured: Measured = {"n": len(images)}
    for reading in ALU_READINGS:
        measured[reading] = [round(float(score), 4) for score in bench.decision(SYSTEM, reading, images).score]
    return measured


def _images(bench: Workbench, kind: Column | str) -> ImageSet:
    from alu.paper.workbench import ImageSet

    if not isinstance(kind, Column):
        return bench.images("cifar10", kind, bench.sizes[kind])
    clean = bench.test_images()
    images = bench.attacked_as(kind, SYSTEM, clean)
    if kind.attack != "autoattack":
        return images
    # AutoAttack leaves alone what is wrong already: a detector is not to be blamed for clean images.
    moved = (images.images != clean.images).flatten(1).any(1)
    return ImageSet(f"{images.name}, moved", images.images[moved], images.labels[moved])


def paper_threshold(results: Results, reading: Reading) -> float:
    """The 99.5 % quantile of training images."""
    return quantile(results.need(Key(TRAIN))[reading], 0.995)


def held_out_threshold(results: Results, reading: Reading) -> float:
    """The detector's: conformal, from held-out images, at 0.5 % false alarms."""
    threshold = conformal_threshold(results.need(Key(HELD_OUT))[reading], 0.005)
    return float("inf") if threshold is None else threshold


def _above(scores: Sequence[float], threshold: float) -> Share:
    return Share(sum(score > threshold for score in scores), len(scores))


def view(results: Results) -> list[Panel]:
    """One histogram for each reading, and how much is flagged by each threshold."""
    panels: list[Panel] = []
    rows = []
    measured = {kind: cell for kind in SHOWN if (cell := results.get(Key(kind)))}
    for reading in ALU_READINGS if measured else ():
        groups = [Group(*SHOWN[kind], cell[reading]) for kind, cell in measured.items()]
        paper = paper_threshold(results, reading) if TRAIN in measured else None
        ours = held_out_threshold(results, reading) if results.get(Key(HELD_OUT)) else None
        other = None if paper is None else ("the paper's threshold, from training images:", paper)
        legend = [(group.name, group.colour) for group in groups]
        drawing = histogram(groups, ours, other=other)
        panels.append((Chart(f"Score sum |Δ|, {reading} reading", drawing, legend),))
        for group in groups:
            above = [None if mark is None else _above(group.values, mark) for mark in (paper, ours)]
            rows.append([f"{group.name}, {reading}", *map(percent, above)])
    header = ["images, reading", "above the paper's threshold, percent", "above the held-out threshold, percent"]
    return [*panels, Table("Flagged images", header, rows)]


@claim("train and test scores overlap", "The score has the same distribution on training and test images.")
def overlap(results: Results) -> Verdict:
    """Test images above the threshold of training images."""
    figures, findings = [], []
    for reading in ALU_READINGS:
        above = _above(results.need(Key(Column.CLEAN))[reading], paper_threshold(results, reading))
        findings.append(at_most(above, 0.02))
        figures.append(f"{reading}: {percent(above)} of test images lie above the 99.5 % quantile of training images")
    return Verdict(every(findings), figures, "To hold: at most 2 % in both readings.")


@claim("clean and attacked scores are separable", "The score separates clean from attacked images.")
def separable(results: Results) -> Verdict:
    """Attacked images above the held-out threshold."""
    statuses, figures = _flagged(results, (Column.PGD_ON_F, Column.PGD_ON_VAE), "flagged", [])
    rule = "To hold: at least 90 % under both attacks. Against oblivious attackers only: under PGD-20 on f."
    return best_case(statuses, figures, rule)


@claim("detection survives AutoAttack", "Table 2's accuracy under AutoAttack needs a detector that flags its images.")
def survives_autoattack(results: Results) -> Verdict:
    """AutoAttack's images above the held-out threshold, and what an attacker leaves who aims at the detector."""
    stealth = results.need(adaptive.Key("cifar10-vae", Reading.ABSTAIN, "Stealth"))
    resisted = ones(stealth["outcome"].replace("2", "1"))
    columns = (Column.AUTOATTACK_ON_F, Column.AUTOATTACK_ON_VAE)
    words = "of the images it moved are flagged"
    statuses, figures = _flagged(results, columns, words, [at_least(resisted, 0.5)])
    figures.append(
        f"under stealth, which knows the threshold, {percent(resisted)} are flagged or still answered "
        "correctly (input reading)"
    )
    rule = "To hold: at least 90 %, and 50 % under stealth. Against oblivious attackers only: 90 % of AutoAttack on f."
    return best_case(statuses, figures, rule)


def _flagged(
    results: Results, columns: Sequence[Column], words: str, adaptive: list[Finding]
) -> tuple[dict[Reading, Status], list[str]]:
    """Whether 90 % of an attack on f, and through the VAE, are flagged; `adaptive` is what all attackers must leave."""
    figures, statuses = [], {}
    for reading in ALU_READINGS:
        findings = []
        for column in columns:
            above = _above(results.need(Key(column))[reading], held_out_threshold(results, reading))
            findings.append(at_least(above, 0.9))
            figures.append(f"{column}, {reading}: {percent(above)} {words}")
        on_f, through = findings
        statuses[reading] = by_attacker([through, *adaptive], [on_f])
    return statuses, figures


EXPERIMENT = Experiment(
    Key,
    lambda sizes: [Cell(Key(images), SYSTEM.needs) for images in (TRAIN, HELD_OUT, *Column)],
    measure,
    view,
    title="The score on clean and attacked images",
    question="Do scores of training and test images overlap, and does the score separate clean from attacked images?",
    sizes={"n": (500, 40), "train": (2_500, 200), "calibration": (2_500, 200)},
    differs=(
        "The paper shows one histogram and does not say which logits are compared with those after purification: "
        "both readings are shown. Its threshold comes from training images."
    ),
    why="500 test images come with the package; all held-out images and as many training images are used too.",
    claims=(overlap, separable, survives_autoattack),
)
