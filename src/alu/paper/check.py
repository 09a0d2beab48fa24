"""check: the neighbourhood check under the attacks that aim at it, beside its classifier and refusal by confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from alu.paper import robust_base, store
from alu.paper.base import EPS, Cell, Experiment, Sizes, Tensor, Workbench
from alu.paper.store import Measured, Results, digits, outcomes
from alu.paper.views import Panel, Table, percent, points
from alu.stats import Estimate, mean_difference

CHECK, CONFIDENCE = "check", "confidence"
METHODS = (CHECK, CONFIDENCE)
VERSIONS = {CHECK: 2, CONFIDENCE: 2}
"""2: min-max joins, and confidence is attacked hard wherever the classifier alone falls."""
BASE, OTHER = robust_base.PINNED, "cifar10-fat"
"""The base of the bundled check; and the best of the other robust classifiers on validation images."""
RADII = (1, 2, 3, 4)
DEPLOYED = 2
"""Radii of checks, and that of the bundled one, in 255ths."""
WIDEST = round(255 * EPS)
"""The attacker's radius, in 255ths."""
OTHERS = ("cifar10-standard", *(name for name in robust_base.BASES if name.startswith("cifar10-")))
"""Networks whose adversarial images may transfer."""
SILENCED = (1, 2, 4)
"""Radii within which an attacker tries to make the check refuse, in 255ths."""
AGAIN: dict[str, int] = {"steps": 100, "targets": 5}
"""The second search of accepted adversarial images, ten times as long as the deployed one, towards five classes."""


class Key(store.Key, experiment="check"):
    """A classifier that refuses by one method, on some of the images; `confidence` refuses as many as the check of
    this radius."""

    classifier: str
    method: str
    radius: int
    part: int


def parts(classifier: str, radius: int, sizes: Sizes) -> range:
    """The parts that are measured; the deployed check of the first base has more of them than the others."""
    return range(sizes["n" if (classifier, radius) == (BASE, DEPLOYED) else "few"] // sizes["part"])


def rows() -> Iterator[tuple[str, int]]:
    """Classifier and radius of each check, the deployed one first."""
    yield BASE, DEPLOYED
    yield from ((BASE, radius) for radius in RADII if radius != DEPLOYED)
    yield from ((OTHER, radius) for radius in RADII)


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """Every check in parts, and beside it refusal by confidence."""
    return [
        Cell(Key(classifier, method, radius, part), (classifier,), VERSIONS[method])
        for classifier, radius in rows()
        for part in parts(classifier, radius, sizes)
        for method in METHODS
    ]


def measure(bench: Workbench, key: Key) -> Measured:
    """Each image clean and under all attacks: right (1), answered wrongly (0) or refused (2)."""
    from alu.attacks import fooled

    drawn, size = bench.images("cifar10", "test", bench.sizes["drawn"]), bench.sizes["part"]
    here = slice(key.part * size, (key.part + 1) * size)
    images, labels = drawn.images[here], drawn.labels[here]
    defense = defended(bench, key)
    clean = defense.decide(images)
    stands: Tensor = clean.accepted & (clean.label == labels)
    again, contested = stands.clone(), stands & ~_held(bench, key, images, labels)
    broken: dict[str, int] = {}
    for group, hard in ((contested, True), (stands & ~contested, False)):
        for name, attack in attacks(bench, key, hard=hard):
            left = (stands & group).nonzero().flatten()
            broken.setdefault(name, 0)
            if not len(left):
                continue
            watch = partial(bench.watch, f"{name} on {key}")
            numbers = [here.start + position for position in left.tolist()]
            adversarial = attack(defense, images[left], labels[left], watch=watch, numbers=numbers)
            fell = fooled(defense, adversarial, labels[left])
            broken[name] += int(fell.sum())
            stands[left[fell]] = False
            if key.method == CHECK and bool(fell.any()):
                # What a longer search would have refused is not lost to the longer search.
                again[left[fell]] = ~fooled(_searching_longer(defense), adversarial[fell], labels[left[fell]])
    return {
        "n": len(labels), "clean": outcomes(clean, labels), "stands": digits(stands), "contested": digits(contested),
        "searched again": digits(again) if key.method == CHECK else "", "broken": broken,
        "never silenced": never_silenced(bench, defense, images, labels, clean.outcome(labels) == 1),
    }  # fmt: skip


def never_silenced(
    bench: Workbench, defense: Any, images: Tensor, labels: Tensor, answered: Tensor
) -> dict[str, str]:  # fmt: skip
    """By radius, the images that are right and answered and that an attacker could make neither refused nor wrong."""
    from alu.attacks.adaptive import Denial

    kept, found = answered.clone(), {}
    for radius in SILENCED:
        left = kept.nonzero().flatten()
        attack = Denial(eps=radius / 255, steps=bench.sizes["few steps"], seed=bench.seed)
        if len(left):
            attacked = attack(defense, images[left], labels[left])
            kept[left] = ~attack.broken(defense, attacked, labels[left])
        found[str(radius)] = digits(kept)
    return found


def defended(bench: Workbench, key: Key) -> Any:
    """The check; or refusal by confidence, which refuses as many calibration images as that check does."""
    from alu.defense import Defense
    from alu.detectors import Confidence, Neighbourhood

    def check() -> Defense:
        detector = Neighbourhood(radius=key.radius / 255)
        return Defense(bench.classifier(key.classifier), detector=detector, rule="abstain")

    def confidence() -> Defense:
        held_out = bench.images("cifar10", "calibration", bench.sizes["calibration"]).images
        refused = float((~check().decide(held_out).accepted).double().mean())
        detector = Confidence(false_alarm=min(max(refused, 1 / len(held_out)), 0.99))
        return Defense(bench.classifier(key.classifier), detector=detector, rule="abstain").calibrate(held_out)

    build = check if key.method == CHECK else confidence
    return bench.once((key.classifier, key.method, key.radius), build)


def _searching_longer(defense: Any) -> Any:
    from alu.defense import Defense
    from alu.detectors import Neighbourhood

    detector = Neighbourhood(radius=defense.detector.radius, **AGAIN)
    return Defense(defense.classifier, detector=detector, rule="abstain")


def _held(bench: Workbench, key: Key, images: Tensor, labels: Tensor) -> Tensor:
    """Images on which the classifier alone stands at max(r, eps − r): a check whose search overlooks nothing keeps
    them. Confidence promises that only of those that stand at eps. The effort spent on an image depends on this."""
    from alu.attacks import CWLinf
    from alu.defense import batched_logits

    network = bench.classifier(key.classifier)
    radius = max(key.radius, WIDEST - key.radius) if key.method == CHECK else WIDEST
    search = CWLinf(eps=radius / 255, steps=bench.sizes["steps"], seed=bench.seed)
    return batched_logits(network, search(network, images, labels)).argmax(1) == labels


def attacks(bench: Workbench, key: Key, *, hard: bool) -> Iterator[tuple[str, Callable[..., Tensor]]]:
    """The attacks in order, cheap ones first; `hard` for images that can be lost even to a perfect search."""
    from alu.attacks import APGDCE, APGDT, adaptive
    from alu.attacks.adaptive.transfer import OnAnother

    network = bench.classifier(key.classifier)
    same: dict[str, Any] = {"eps": EPS, "seed": bench.seed}
    steps, targets = (bench.sizes[name if hard else f"few {name}"] for name in ("steps", "targets"))
    aimed: dict[str, Any] = {**same, "steps": steps, "targets": targets}
    yield "APGD on f", OnAnother(network, APGDCE(steps=steps, **same))
    yield "targeted APGD on f", OnAnother(network, APGDT(steps=steps, targets=targets, **same))
    if key.method == CHECK:
        yield "min-max", adaptive.MinMax(**aimed)
    yield "confident", adaptive.Confident(**aimed)
    if key.method == CHECK:
        yield "straight-through", adaptive.StraightThrough(**aimed)
        yield "stall", adaptive.Stall(**aimed)
        yield "unrolled search", adaptive.UnrolledSearch(**aimed)
        others = [bench.classifier(name) for name in OTHERS if name != key.classifier]
        yield "transfer", adaptive.Transfer(others=others, shares=(0.5, 1.0), budget="quick", steps=20, **same)
        yield "queries", adaptive.Query(queries=bench.sizes["queries"], budget="quick", **same)


def joined(results: Results, classifier: str, method: str, radius: int) -> Measured | None:
    """What the parts that are there measured, in order; None where the first is missing."""
    sizes: Sizes = results.experiments.get(Key.experiment, {}).get("sizes", {})
    known = []
    for part in parts(classifier, radius, sizes) if sizes else ():
        measured = results.get(Key(classifier, method, radius, part))
        if measured is None:
            break
        known.append(measured)
    if not known:
        return None
    whole: Measured = {"n": sum(one["n"] for one in known), "broken": {}}
    for place in ("clean", "stands", "searched again", "contested"):
        whole[place] = "".join(one[place] for one in known)
    whole["never silenced"] = {
        radius: "".join(one["never silenced"][radius] for one in known) for radius in known[0]["never silenced"]
    }
    for one in known:
        for name, count in one["broken"].items():
            whole["broken"][name] = whole["broken"].get(name, 0) + count
    return whole


def gain(first: str, second: str) -> Estimate:
    """By how many images the first keeps more than the second; both are digits of the same images."""
    n = min(len(first), len(second))
    return mean_difference(*([float(digit) for digit in some[:n]] for some in (first, second)))


def bound(base: dict[int, str], radius: int, *, lower: bool, n: int) -> str:
    """Digits of the images on which the classifier alone stands at a radius; where that was not measured, at the
    nearest one that gives a weaker bound."""
    measured = [known for known in base if (known >= radius if lower else known <= radius)]
    return base[min(measured) if lower else max(measured)][:n] if measured else ""


def view(results: Results) -> list[Panel]:
    """What each check keeps beside its classifier and beside confidence; the bounds; which attack broke how many."""
    kept, bounds, silenced, broken = [], [], [], []
    for classifier, radius in rows():
        name = f"{classifier}, r = {radius}/255"
        check, plain = (joined(results, classifier, method, radius) for method in METHODS)
        if check is None:
            kept.append([name, results.why_empty(Key(classifier, CHECK, radius, 0))])
            continue
        base = robust_base.standing(results, classifier)
        kept.append([name, *_kept(check), *_beside(check, base), *_beside_confidence(check, plain)])
        lower, upper = (
            bound(base, at, lower=is_lower, n=check["n"])
            for at, is_lower in ((max(radius, WIDEST - radius), True), (radius, False))
        )
        longer = points(gain(check["searched again"], check["stands"]))
        shown = [percent(one) if one else "–" for one in (lower, check["stands"], upper)]
        bounds.append([name, *shown, _between(lower, check["stands"], upper), longer])
        clean = check["clean"].replace("2", "0")
        silenced.append([name, *map(percent, (clean, *check["never silenced"].values()))])
        broken += [[f"{name}: {attack}", str(count)] for attack, count in check["broken"].items()]
    title = f"Answered rightly when clean, and never wrongly within {WIDEST}/255 (RAR), percent"
    header = [
        "check", "answered when clean", "right of those answered", "RAR", "the classifier alone, RA", "RAR minus RA",
        "confidence: answered when clean", "confidence: RAR", "check minus confidence",
    ]  # fmt: skip
    note = (
        "Confidence: refuses pictures of low confidence, as many calibration images as the check does. Differences are "
        "paired: the same images."
    )
    return [
        Table(title, header, kept, note),
        Table(
            "The two bounds of RAR, percent: the classifier alone at max(r, eps − r) and at r",
            ["check", "lower bound", "RAR", "upper bound", "holds", "change when accepted images are searched longer"],
            bounds,
            "Where the classifier was not measured at such a radius, the nearest one that gives a weaker bound stands "
            f"in. The longer search: {AGAIN['steps']} steps towards each of {AGAIN['targets']} classes.",
        ),
        Table(
            "Right and answered, whatever an attacker does within a radius to have it refused, percent",
            ["check", "clean", *(f"within {radius}/255" for radius in SILENCED)],
            silenced,
            "A refusal does no harm by itself, but whoever needs answers can be denied them.",
        ),
        Table("Images that each attack was the first to break", ["check and attack", "images"], broken, folded=True),
    ]


def _between(lower: str, kept: str, upper: str) -> str:
    """Whether RAR lies between its bounds, as far as they are known."""
    if not lower or not upper:
        return "–"
    return "yes" if lower.count("1") <= kept.count("1") <= upper.count("1") else "no"


def _kept(check: Measured) -> list[str]:
    answered = check["clean"].replace("0", "1").replace("2", "0")
    right = "".join(digit for digit in check["clean"] if digit != "2")
    return [percent(answered), percent(right), percent(check["stands"])]


def _beside(check: Measured, base: dict[int, str]) -> list[str]:
    if not base:
        return ["–", "–"]
    alone = base[WIDEST][: check["n"]]
    return [percent(alone), points(gain(check["stands"], alone))]


def _beside_confidence(check: Measured, plain: Measured | None) -> list[str]:
    if plain is None:
        return ["–", "–", "–"]
    answered, _, kept = _kept(plain)
    return [answered, kept, points(gain(check["stands"], plain["stands"]))]


SIZES = {
    "drawn": (1_000, 20), "n": (500, 4), "few": (200, 0), "part": (50, 4), "steps": (100, 5), "targets": (9, 2),
    "few steps": (40, 5), "few targets": (3, 1), "queries": (1_000, 10), "calibration": (1_500, 200),
}  # fmt: skip
EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="The neighbourhood check",
    question="How many images does a check keep that an attacker who knows it cannot turn into a wrong answer?",
    sizes=SIZES,
    differs="Not in the paper, which has no refusal.",
    leaves_out="The quick form has the deployed check only.",
    why="Every step of an attack on a check searches around the image again: some 20,000 passes for an image.",
)
