"""features: penultimate features split as in the paper, and how much of a logit's change its equation explains."""

from __future__ import annotations

from typing import Any

from alu.paper import store
from alu.paper.base import Cell, Experiment, Tensor, Workbench
from alu.paper.claims import Verdict, at_least, at_most, claim, every
from alu.paper.store import Measured, Results, rounded
from alu.paper.views import Panel, Table
from alu.stats import explained_variance, ratio

STANDARD, ROBUST = "cifar10-standard", "cifar10-at"
KEPT = (0.5, 0.8, 0.95)
"""A useful feature is robust if it keeps this share of what it gave to the true logit; the paper gives no figure."""


class Key(store.Key, experiment="features"):
    """A classifier."""

    classifier: str


KEYS = (Key(STANDARD), Key(ROBUST))


def measure(bench: Workbench, key: Key) -> Measured:
    """For each successful attack: the change of the true and of the adversarial logit, and the part of it that robust,
    non-robust and irrelevant features carry. The parts add up exactly; the paper says that the second is nearly all."""
    import torch

    clean, network = bench.test_images(), bench.classifier(key.classifier)
    images = bench.attacked(f"pgd-20 on {key.classifier}", clean, bench.attack("pgd-20"), network)
    model: Any = network
    with torch.no_grad():
        before, after = (
            torch.cat([model.features(part) for part in torch.split(some.images, 100)]) for some in (clean, images)
        )
        weights, labels, answer = model.linear.weight, clean.labels, model.linear(after).argmax(1)
        success = (model.linear(before).argmax(1) == labels) & (answer != labels)
        before, after, labels, answer = (part[success] for part in (before, after, labels, answer))
        kept = {str(kept): split(before, after, weights[labels], weights[answer], kept) for kept in KEPT}
    return {"n": len(clean), "successful": len(labels), "features": before.shape[1], "kept": kept}


def split(before: Tensor, after: Tensor, own: Tensor, theirs: Tensor, kept: float) -> dict[str, Any]:
    """The change of both logits in parts, for each image; `own` and `theirs` are the last layer's weights."""

    gave, gives = own * before, own * after
    useful = gave > 0
    robust = useful & (gives >= kept * gave)
    groups = {"robust": robust, "non-robust": useful & ~robust, "irrelevant": ~useful}
    parts: dict[str, Any] = {}
    for logit, weights in (("true", own), ("adversarial", theirs)):
        change = weights * (after - before)
        parts[logit] = {name: rounded((change * group).sum(1)) for name, group in groups.items()}
        parts[logit]["all"] = rounded(change.sum(1))
    parts["share of features"] = {name: round(float(group.float().mean()), 4) for name, group in groups.items()}
    return parts


def view(results: Results) -> list[Panel]:
    """How much of the change non-robust features carry."""
    rows = []
    for key, measured in results.measured(KEYS):
        for kept, parts in measured["kept"].items():
            for logit in ("true", "adversarial"):
                row = parts[logit]
                shares = [_part(row[group], row["all"]) for group in ("robust", "non-robust", "irrelevant")]
                fit = explained_variance(row["non-robust"], row["all"]).shown() if row["all"] else "–"
                rows.append([f"{key.classifier}, {logit} logit, keeps {kept}", *shares, fit])
    title = "Which features carry the logit change"
    header = ["", "robust features", "non-robust features", "irrelevant features", "R² of the paper's equation"]
    note = (
        "Which part of the mean change each kind of feature carries. R²: how much of the variance between images the "
        "non-robust part explains, up to a constant."
    )
    return [Table(title, header, rows, note)]


def _part(part: list[float], whole: list[float]) -> str:
    return ratio(part, whole).shown(".0%") if whole else "–"


@claim("non-robust features carry the change", "A logit's change is that of the non-robust features.")
def equation(results: Results) -> Verdict:
    """How much of a logit's change the non-robust features carry."""
    figures, findings = [], []
    row = results.need(Key(STANDARD))["kept"]["0.8"]
    for logit in ("true", "adversarial"):
        part, whole = row[logit]["non-robust"], row[logit]["all"]
        fit, carried = explained_variance(part, whole), ratio(part, whole)
        findings += [at_least(fit, 0.8), at_least(carried, 0.8), at_most(carried, 1.2)]
        carry = f"non-robust features carry {carried.shown('.0%')} of the change, R² {fit.shown()}"
        figures.append(f"{logit} logit: {carry}")
    figures.append(f"{len(row['true']['all'])} successes; a feature is robust if it keeps 80 %")
    return Verdict(every(findings), figures, "To hold: 80 to 120 % and an R² of at least 0.8.")


EXPERIMENT = Experiment(
    Key,
    lambda sizes: [Cell(key, (key.classifier,)) for key in KEYS],
    measure,
    view,
    title="Robust, non-robust and irrelevant features",
    question="Is a logit's change under attack carried by the non-robust features alone, as the paper's equation says?",
    sizes={"n": (500, 60)},
    differs=(
        "The paper defines the parts but no threshold; here a feature is a coordinate of the penultimate "
        "layer, useful if it raises the true logit, robust if it keeps a stated share of that."
    ),
    why="500 test images come with the package.",
    claims=(equation,),
)
