"""certificates: how many answers are proven to hold, by radius (L2), and an attack that tries to break the proofs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist
from typing import Any

from alu.paper import store
from alu.paper.base import Cell, Experiment, Sizes, Tensor, Workbench
from alu.paper.store import Measured, Results, digits
from alu.paper.views import Colour, Panel, Table, curve, line_chart, percent
from alu.report.axes import Axes, linear, shares
from alu.stats import Share

RADII = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Radius 0: a majority is proven, however small."""
ANSWERED_AT = (0.25, 0.5)
"""Radii of the rule "answer only if at least this is proven"."""
ALPHA = 0.001
JUST_INSIDE = 0.99
"""How far the attacker goes, as a share of the radius that was proven."""


@dataclass(frozen=True)
class Smoothing:
    """A bundled classifier, the noise it is smoothed with, and the denoiser before it, if any."""

    classifier: str
    sigma: float
    colour: Colour
    denoiser: str = ""
    size: str = "n"
    """Which size says how many images it is measured on."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The bundled models it is made of."""
        return tuple(filter(None, (self.classifier, self.denoiser)))

    def largest(self, sizes: Sizes) -> float:
        """The largest radius that so many samples can prove: that of an image on which all of them agree."""
        return self.sigma * NormalDist().inv_cdf(ALPHA ** (1 / sizes["samples"]))


PLUGGED_IN = "cifar10-standard + cifar10-denoiser"
SYSTEMS = {
    "cifar10-smooth": Smoothing("cifar10-smooth", 0.25, Colour.BLUE),
    "cifar10-smooth-50": Smoothing("cifar10-smooth-50", 0.5, Colour.RED),
    PLUGGED_IN: Smoothing("cifar10-standard", 0.25, Colour.GREEN, "cifar10-denoiser"),
    # Neither was trained on noise: how much that matters shows on a few images.
    "cifar10-standard + cifar10-unet": Smoothing("cifar10-standard", 0.25, Colour.AMBER, "cifar10-unet", "few"),
    "cifar10-standard + cifar10-vae": Smoothing("cifar10-standard", 0.25, Colour.PURPLE, "cifar10-vae", "few"),
}
BARS = {("cifar10-smooth", 0.25): 60.0, ("cifar10-smooth", 0.5): 46.0, ("cifar10-smooth-50", 1.0): 28.0}
"""What was asked for before anything was measured, in percent."""
PUBLISHED: dict[str, tuple[float | None, ...]] = {
    "ResNet-110, noise 0.25, trained on noise": (74.8, 60.0, 42.8, 26.6, 0.0),
    "ResNet-110, noise 0.25, consistency of weight 20": (75.8, 67.6, 58.1, 46.7, 0.0),
    "ResNet-20, noise 0.5, trained on noise": (67.0, 55.4, 42.8, 31.4, 22.0),
    "ResNet-20, noise 0.5, consistency of weight 5": (63.4, 55.9, 48.0, 40.1, 32.7),
    "behind a denoiser that saw the classifier": (None, 56.0, 41.0, None, None),
    "behind a denoiser that did not": (None, 45.0, 20.0, None, None),
}
"""Figures of Jeong and Shin 2020 (100,000 samples) and Salman et al. 2020, in percent, by radius."""


class Key(store.Key, experiment="certificates"):
    """A smoothed classifier on some of the images: part 0 has the first ones."""

    system: str
    part: int


def parts(system: str, sizes: Sizes) -> range:
    """The parts that a system's images are measured in; each is a cell, so that an interruption costs one."""
    return range(sizes[SYSTEMS[system].size] // sizes["part"])


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """Every system, part by part."""
    return [
        Cell(Key(name, part), system.needs) for name, system in SYSTEMS.items() for part in parts(name, sizes)
    ]  # fmt: skip


def measure(bench: Workbench, key: Key) -> Measured:
    """Label and radius of each image, and what an attack just inside the radius makes of the answers."""
    from alu.models import Denoised, Smoothed

    system, sizes = SYSTEMS[key.system], bench.sizes
    first, network = key.part * sizes["part"], bench.classifier(system.classifier)
    if system.denoiser:
        network = Denoised(bench.classifier(system.denoiser), network)
    drawn = bench.images("cifar10", "test", sizes["n"])
    here = slice(first, first + sizes["part"])
    images, labels = drawn.images[here], drawn.labels[here]

    def watch(what: str, done: int, _: int) -> None:
        bench.watch(f"{what} {key.system}", first + done, sizes[system.size])

    smoothed = partial(Smoothed, network, system.sigma, draws=sizes["draws"])
    found = smoothed(seed=bench.seed).certify(
        images, n=sizes["samples"], n0=sizes["first"], alpha=ALPHA, watch=partial(watch, "Certifying")
    )
    answered = (found.labels >= 0).nonzero().flatten().tolist()
    kept = ""
    for done, at in enumerate(answered):
        watch("Attacking", done, len(answered))
        one = slice(at, at + 1)
        kept += attacked(bench, smoothed, images[one], found.labels[one], float(found.radii[at]), first + at)
    return {
        "n": len(labels),
        "right": digits(found.labels == labels),
        "answered": digits(found.labels >= 0),
        # Rounded down: a radius must not be rounded up to the one asked for.
        "radii": [math.floor(1e4 * radius) / 1e4 for radius in found.radii.tolist()],
        "samples": int(found.samples.sum()),
        "attacked": kept,
    }


def attacked(bench: Workbench, smoothed: Any, image: Tensor, label: Tensor, radius: float, number: int) -> str:
    """What an attack just inside the radius leaves of an answer: 1 the same, 0 another one, 2 no majority.

    PGD follows the gradient of the loss of the mean probability over noisy copies, which are new at every step. Its
    noise and that of the judge are not the certificate's.
    """
    from alu.attacks import PGD

    attack = PGD(norm="L2", eps=JUST_INSIDE * radius, steps=bench.sizes["steps"], seed=bench.seed)
    moved = attack(smoothed(seed=bench.seed + 1), image, label, numbers=[number])
    judge = smoothed(seed=bench.seed + 2)
    (answer,), _ = judge.certify(moved, n=bench.sizes["judged"], n0=bench.sizes["first"], alpha=ALPHA)
    return "2" if int(answer) < 0 else str(int(answer == label[0]))


def joined(results: Results, system: str) -> Measured:
    """All parts of a system as one cell; empty where one is missing."""
    sizes: Sizes = results.experiments.get(Key.experiment, {}).get("sizes", {})
    found = [results.get(Key(system, part)) for part in (parts(system, sizes) if sizes else ())]
    if not found or any(cell is None for cell in found):
        return {}
    whole = [cell for cell in found if cell is not None]
    texts = {name: "".join(cell[name] for cell in whole) for name in ("right", "answered", "attacked")}
    return {**texts, "radii": [radius for cell in whole for radius in cell["radii"]]}


def proven(cell: Measured, radius: float, of: str = "right") -> Share:
    """The share of images that are right, or answered, with at least this radius."""
    held = zip(cell[of], cell["radii"], strict=True)
    return Share(sum(digit == "1" and reach >= radius for digit, reach in held), len(cell[of]))


def view(results: Results) -> list[Panel]:
    """Certified accuracy by radius beside published figures, what was asked for, the rule, and the attack."""
    sizes: Sizes = results.experiments.get(Key.experiment, {}).get("sizes", {})
    known = {name: cell for name in SYSTEMS if (cell := joined(results, name))}
    return [_by_radius(results, known, sizes), *_curves(known, sizes), _bars(known), _rule(known), _attack(known)]


def _reach(system: str, sizes: Sizes) -> list[float]:
    """The radii of the table that the samples can prove."""
    return [radius for radius in RADII if radius < SYSTEMS[system].largest(sizes)]


def _by_radius(results: Results, known: dict[str, Measured], sizes: Sizes) -> Table:
    rows = []
    for name in SYSTEMS:
        if name not in known:
            rows.append([name, results.why_empty(Key(name, 0))])
            continue
        shown = [percent(proven(known[name], radius)) for radius in _reach(name, sizes)]
        rows.append([name, *shown, *["–"] * (len(RADII) - len(shown))])
    for name, figures in PUBLISHED.items():
        rows.append([f"published: {name}", *("–" if figure is None else f"{figure:g}" for figure in figures)])
    note = (
        f"Noise 0.25, cifar10-smooth-50: 0.5. A certificate is wrong with probability {ALPHA:g} at most. A dash: more "
        "than the samples can prove, or not published. Published: Jeong and Shin 2020, with 100,000 samples, and for "
        "denoisers Salman et al. 2020."
    )
    title = "Right and proven to hold within a radius (L2), percent"
    return Table(title, ["classifier", *(f"{radius:g}" for radius in RADII)], rows, note)


def _curves(known: dict[str, Measured], sizes: Sizes) -> list[Panel]:
    ours = [
        curve(name, SYSTEMS[name].colour, [(radius, proven(cell, radius)) for radius in _reach(name, sizes)])
        for name, cell in known.items()
    ]
    axes = Axes(linear(0, RADII[-1]), shares(), "radius (L2)", "share of images")
    return [(line_chart("Right and proven to hold within a radius", axes, ours),)] if ours else []


def _bars(known: dict[str, Measured]) -> Table:
    rows = []
    for (name, radius), bar in BARS.items():
        if name in known:
            share = proven(known[name], radius)
            met = "met" if 100 * share.value >= bar else "not met"
            rows.append([f"{name} at {radius:g}", f"{bar:g}", percent(share), met])
    return Table("What was asked for, percent", ["classifier and radius", "at least", "measured", ""], rows)


def _rule(known: dict[str, Measured]) -> Table:
    rows = [
        [f"{name}, r = {radius:g}", percent(proven(cell, radius, "answered")), percent(proven(cell, radius))]
        for name, cell in known.items()
        for radius in ANSWERED_AT
    ]
    note = (
        "The last column is proven, not measured under attack: two answers that each hold within r cannot lie closer "
        "than 2r. It is the share of clean images that are answered rightly."
    )
    title = "Answer only if a radius of r is proven, percent"
    return Table(title, ["classifier", "answered, clean", "right, and never answered wrongly within 2r"], rows, note)


def _attack(known: dict[str, Measured]) -> Table:
    rows = []
    for name, cell in known.items():
        tried = cell["attacked"]
        counts = [str(tried.count(digit)) for digit in "012"]
        rows.append([name, str(len(tried)), *counts, f"{ALPHA * len(tried):.2g}"])
    header = ["classifier", "attacked", "another answer", "the same answer", "no majority", "may be wrong (expected)"]
    note = (
        f"PGD through noisy copies, at {JUST_INSIDE:g} of each image's own radius. A test of soundness, not a figure."
    )
    return Table("Images whose proof an attack tried to break", header, rows, note)


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="Certificates",
    question="How many answers of the smoothed classifiers are proven to hold, by radius?",
    sizes={
        "n": (500, 5), "few": (50, 5), "part": (50, 5), "samples": (10_000, 200), "first": (100, 20),
        "steps": (20, 3), "draws": (32, 4), "judged": (1_000, 100),
    },
    differs="Not in the paper, which proves nothing.",
    why="Ten thousand noisy copies of each image are classified.",
)  # fmt: skip
