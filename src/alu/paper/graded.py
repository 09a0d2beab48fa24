"""graded: does rule "graded" keep what the bare classifier gets right, and what the paper's rule wins?"""

from __future__ import annotations

from alu.paper import store
from alu.paper.base import Cell, Experiment, ImageSet, Sizes, System, Workbench
from alu.paper.store import Measured, Reading, Results, digits, ones
from alu.paper.views import Colour, Panel, Table, dot, dot_chart, percent, points
from alu.stats import mean_difference

SYSTEM = System("cifar10-standard", "cifar10-vae")
CLEAN = "clean"
ATTACKS = {f"PGD-20, {radius} of 255": radius for radius in (1, 2, 4, 8)}
"""On the bare classifier, by radius in 255ths."""
MODERATE = (
    "Gaussian noise 0.02", "Gaussian noise 0.05", "Gaussian noise 0.1", "salt and pepper 1 %", "salt and pepper 2 %",
    "brightness +0.1", "brightness -0.1", "brightness +0.2", "brightness -0.2", "contrast x 0.7", "contrast x 1.3",
    "blur of 0.5 pixels", "JPEG, quality 90", "JPEG, quality 75", "shift by 1 pixel", "rotation by 5 degrees",
)  # fmt: skip
STRONG = (
    "Gaussian noise 0.2", "salt and pepper 5 %", "blur of 1 pixel", "JPEG, quality 50", "shift by 2 pixels",
    "rotation by 10 degrees",
)  # fmt: skip
"""Harmless changes by the names that `alu.evaluation.harmless` gives them; no bar is set for the strong ones."""
EVERY = (CLEAN, *ATTACKS, *MODERATE, *STRONG)
RULES = {"bare": Colour.SLATE, "purified": Colour.GREEN, "alu": Colour.BLUE, "graded": Colour.PURPLE}
STATES = ("clean", "suspicious", "attacked", "corrupted")
MOST_LOST_CLEAN, MOST_LOST = 0.025, 0.02
"""Bars: against the bare classifier on clean images; and against the paper's rule under PGD-20 at 4 and 8/255, or the
better of bare and purified after a moderate change."""
BARRED = (4, 8)
"""Radii for which there is a bar: a weaker attack leaves p-values that clean images have too."""


class Key(store.Key, experiment="graded"):
    """One kind of images."""

    images: str


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """Every kind of images; the quick form has no strong changes."""
    return [Cell(Key(name), SYSTEM.needs) for name in EVERY if sizes["strong"] or name not in STRONG]


def measure(bench: Workbench, key: Key) -> Measured:
    """Right or not for each image and each way to answer, and the states, one digit for each image."""
    images = _images(bench, key.images)
    graded = bench.defense(SYSTEM, Reading.GRADED)
    evidence = bench.evidence(graded, SYSTEM, images)
    decision = graded.judge(evidence)
    return {
        "n": len(images),
        "bare": digits(evidence.pre_logits.argmax(1) == images.labels),
        "purified": digits(evidence.post_logits.argmax(1) == images.labels),
        "alu": digits(graded.with_rule("alu").judge(evidence).label == images.labels),
        "graded": digits(decision.label == images.labels),
        "states": "".join(map(str, decision.state.tolist())),
    }


def _images(bench: Workbench, name: str) -> ImageSet:
    """The test images, attacked or changed as the name says."""
    import torch

    from alu.attacks import PGD
    from alu.evaluation.harmless import HARMLESS
    from alu.paper.workbench import ImageSet as Made

    clean = bench.test_images()
    if name == CLEAN:
        return clean
    if name in ATTACKS:
        attack = PGD(steps=20, eps=ATTACKS[name] / 255, seed=bench.seed)
        return bench.attacked(name, clean, attack, bench.classifier(SYSTEM.classifier))
    change = next(change for change in HARMLESS if change.name == name)
    changed = torch.cat([change.apply(clean.images[part]) for part in bench.batches(f"Changing {name}", clean)])
    return Made(f"{clean.name}/{name}", changed, clean.labels, clean.classes)


def rival(name: str, measured: Measured) -> tuple[str, float] | None:
    """What "graded" is compared with on these images, and how much it may lose; None where there is no bar."""
    if name == CLEAN:
        return "bare", MOST_LOST_CLEAN
    if ATTACKS.get(name) in BARRED:
        return "alu", MOST_LOST
    if name in MODERATE:
        return max(("bare", "purified"), key=lambda rule: ones(measured[rule]).value), MOST_LOST
    return None


def view(results: Results) -> list[Panel]:
    """Every way to answer on every kind of images, and whether each bar holds."""
    rows, marks = [], []
    for name in EVERY:
        measured = results.get(Key(name))
        if measured is None:
            rows.append([name, results.why_empty(Key(name))])
            continue
        states = ", ".join(f"{measured['states'].count(str(at))} {word}" for at, word in enumerate(STATES))
        rows.append([name, *(percent(measured[rule]) for rule in RULES), *_barred(name, measured), states])
        marks += [dot(rule, ones(measured[rule]), colour, name) for rule, colour in RULES.items()]
    title = "Right answers, percent: cifar10-standard behind cifar10-vae, N = 20"
    note = (
        "Bars: at most 2.5 points below bare on clean images; at most 2 below alu under PGD-20 at 4 and 8/255, and "
        "below the better of bare and purified after a moderate harmless change. Intervals of differences are of pairs."
    )
    header = ["images", *RULES, "graded against", "bar", "states"]
    return [Table(title, header, rows, note), *dot_chart(title, marks, [*RULES.items()])]


def _barred(name: str, measured: Measured) -> list[str]:
    """The difference to the rival, and whether the bar holds."""
    against = rival(name, measured)
    if against is None:
        return ["–", "–"]
    rule, most = against
    difference = mean_difference(*([float(digit) for digit in measured[which]] for which in ("graded", rule)))
    return [f"{rule}: {points(difference)}", "holds" if difference.value >= -most - 1e-9 else "FAILS"]


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="The graded rule",
    question='Does rule "graded" keep the bare answers on clean and harmless images, and the paper\'s under attack?',
    sizes={"calibration": (2_500, 200), "n": (500, 10), "strong": (1, 0)},
    differs="Not in the paper, whose rule answers every image that is not flagged from its purified version.",
    leaves_out="The quick form leaves strong changes out.",
    why="Every kind of images is purified anew.",
)
