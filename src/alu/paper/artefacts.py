"""artefacts: five experiments that explain the paper's effect (E1 to E5)."""

from __future__ import annotations

from typing import Any

from alu.paper import adaptive, store, threats
from alu.paper.base import EPS, Cell, Experiment, ImageSet, Sizes, System, Tensor, Workbench
from alu.paper.claims import Verdict, at_most, best_case, better, by_attacker, claim, every
from alu.paper.store import ALU_READINGS, Column, Measured, MissingCellError, Reading, Results, digits, ones, select
from alu.paper.views import Colour, Panel, Table, dot, dot_chart, percent

SYSTEM = System("cifar10-standard", "cifar10-vae")
PGD = Column.PGD_ON_F
CONTROLS = {
    "VAE": "cifar10-vae", "blur 0.5": "blur@0.5", "blur 1": "blur@1", "median 3": "median@3", "jpeg 75": "jpeg@75",
    "jpeg 25": "jpeg@25", "pca 500": "cifar10-pca", "pca 100": "cifar10-pca@100",
}  # fmt: skip
"""Purifiers in the VAE's place, by the name of their row."""


class Key(store.Key, experiment="artefacts"):
    """One of the five; "E4" with a purifier in the VAE's place."""

    name: str
    control: str = ""

    def __str__(self) -> str:
        return f"{self.name}/{self.control}" if self.control else self.name


SPLIT, SWAPPED, DECODED = Key("E1 and E5"), Key("E2"), Key("E3")
REPLACED = [Key("E4", control) for control in CONTROLS]


def cells(sizes: Sizes) -> list[Cell[Key]]:
    """E1 and E5 read the same outcomes; E2 swaps labels; E3 decodes them; E4 replaces the VAE."""
    return [
        Cell(SPLIT, SYSTEM.needs),
        Cell(SWAPPED, SYSTEM.needs, version=2),
        Cell(DECODED, (SYSTEM.classifier,)),
        *(Cell(key, (*SYSTEM.needs, "cifar10-pca")) for key in REPLACED),
    ]


def measure(bench: Workbench, key: Key) -> Measured:
    """One of the five."""
    if key == SWAPPED:
        return _swapped(bench)
    if key == DECODED:
        return _decoded(bench)
    clean = bench.test_images()
    attacked = bench.attacked_as(PGD, SYSTEM, clean)
    if key == SPLIT:
        return {"clean": bench.answers(SYSTEM, clean), "attacked": bench.answers(SYSTEM, attacked)}
    system = System(SYSTEM.classifier, CONTROLS[key.control])
    return {
        "n": len(clean), "clean": bench.answers(system, clean), "attacked": bench.answers(system, attacked),
    }  # fmt: skip


def _swapped(bench: Workbench) -> Measured:
    """The attack is given a wrong label y' (the next class): how often is the answer y', and how often the true one?
    The rank of y' among the clean logits (0: highest) tells whether it was a likely confusion."""

    clean = bench.test_images()
    other = (clean.labels + 1) % 10
    network = bench.classifier(SYSTEM.classifier)
    images = bench.attacked("pgd-20, given the next class", clean, bench.attack("pgd-20"), network, other)
    decision = bench.decision(SYSTEM, Reading.INPUT, images)
    logits = bench.logits(SYSTEM.classifier, clean)
    rank = (logits > logits.gather(1, other[:, None])).sum(1)
    return {
        "n": len(clean), "answer is the swapped label": digits(decision.label == other),
        "answer is the true label": digits(decision.label == clean.labels), "flagged": digits(decision.flagged),
        "rank": "".join(map(str, rank.tolist())),
    }  # fmt: skip


def _decoded(bench: Workbench) -> Measured:
    """The label from the perturbation alone, without the picture: by a linear probe that was fitted on perturbations of
    other images, and by the classifier itself, shown the perturbation's negative, enlarged, on grey."""
    from alu.defense import batched_logits

    def perturbation(images: ImageSet) -> Tensor:
        return bench.attacked_as(PGD, SYSTEM, images).images - images.images

    fit, test = bench.images("cifar10", "calibration", bench.sizes["probe"]), bench.test_images()
    probe = _probe(perturbation(fit).flatten(1) / EPS, fit.labels)
    guess = (perturbation(test).flatten(1) / EPS @ probe).argmax(1)
    negative = (0.5 - bench.sizes["enlarged"] * perturbation(test)).clamp(0, 1)
    seen = batched_logits(bench.classifier(SYSTEM.classifier), negative).argmax(1)
    return {
        "n": len(test), "fitted on": len(fit), "linear probe": digits(guess == test.labels),
        "classifier on the negative": digits(seen == test.labels),
    }  # fmt: skip


def _probe(inputs: Tensor, labels: Tensor, steps: int = 300) -> Tensor:
    """Weights [pixels, 10] of a logistic regression with weight decay, by full-batch gradient descent with momentum."""
    import torch
    import torch.nn.functional as F

    weights = torch.zeros((inputs.shape[1], 10), requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.01, momentum=0.9, weight_decay=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(inputs.cpu() @ weights, labels.cpu())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return weights.detach().to(inputs.device)


Rows = list[tuple[str, str, Colour]]
"""A row's name, its digits and its colour."""


def view(results: Results) -> list[Panel]:
    """A figure for each of the five, then their numbers as a table."""
    panels: list[Panel] = []
    listed = []
    for title, every_row in _figures(results).items():
        rows = [row for row in every_row if row[1]]  # where no image is of the kind there is nothing to show
        panels += dot_chart(title, [dot(name, ones(digits), colour) for name, digits, colour in rows])
        listed += [[f"{title.partition(':')[0]} {name}", percent(digits)] for name, digits, _ in rows]
    title = "E1 to E5: PGD-20 on f, input reading (paper protocol)"
    return [*panels, Table(title, ["", "percent"], listed, folded=True)]


def _figures(results: Results) -> dict[str, Rows]:
    """The rows of each figure that was measured, by its title."""
    figures: dict[str, Rows] = {}
    for _, split in results.measured([SPLIT]):
        alu, before, after = _alu(split["attacked"]), split["clean"]["bare"], split["attacked"]["bare"]
        figures["E1: what was right clean, and what was not"] = [
            ("clean images, ALU right", _alu(split["clean"]), Colour.BLUE),
            ("attacked images, ALU right", alu, Colour.RED),
            ("attacked, f was right clean", select(alu, before), Colour.RED),
            ("attacked, f was wrong clean", select(alu, before, "0"), Colour.RED),
        ]
        succeeded = select(select(alu, before), select(after, before), "0")
        figures["E5: only attacks that succeeded"] = [
            ("all attacked images, ALU right", alu, Colour.SLATE),
            ("attacks on f that succeeded, ALU right", succeeded, Colour.RED),
        ]
    for _, swapped in results.measured([SWAPPED]):
        figures["E2: the attack is given the next class instead of the true one"] = [
            ("ALU answers the next class", swapped["answer is the swapped label"], Colour.RED),
            ("ALU answers the true class", swapped["answer is the true label"], Colour.BLUE),
            ("the next class, ranked last five clean", unlikely(swapped), Colour.RED),
        ]
    for _, decoded in results.measured([DECODED]):
        figures["E3: the label decoded from the perturbation alone"] = [
            (f"linear probe, fitted on {decoded['fitted on']} others", decoded["linear probe"], Colour.RED),
            ("f, shown the negative on grey", decoded["classifier on the negative"], Colour.RED),
        ]
    for key, measured in results.measured(REPLACED):
        rows = figures.setdefault("E4: other purifiers in the VAE's place", [])
        rows += [
            (f"{key.control}: clean, ALU", _alu(measured["clean"]), Colour.BLUE),
            (f"{key.control}: attacked, ALU", _alu(measured["attacked"]), Colour.RED),
            (f"{key.control}: attacked, purified only", measured["attacked"]["purified"], Colour.SLATE),
        ]
    return dict(sorted(figures.items()))


def unlikely(swapped: Measured) -> str:
    """Digits of E2's answers where the swapped label was among the last five of the clean logits; none where the ranks
    were not kept, as in results of the experiment's first version."""
    last = "".join(str(int(int(rank) >= 5)) for rank in swapped.get("rank", ""))
    return select(swapped["answer is the swapped label"], last) if last else ""


def _alu(measured: dict[str, Any]) -> str:
    return str(measured["input"]["alu"])


@claim("accuracy under attack exceeds clean accuracy", "ALU is right more often on attacked than on clean images.")
def above_clean(results: Results) -> Verdict:
    """Accuracy on attacked and on clean images, all of it by the paper's protocol."""
    split, figures, statuses = results.need(SPLIT), ["Paper protocol, by reading"], {}
    for reading in ALU_READINGS:
        clean, attacked = (split[kind][reading]["alu"] for kind in ("clean", "attacked"))
        through = results.need(threats.Key(reading, threats.SURROGATE))["attacked"]
        unharmed, decoy = (
            results.need(adaptive.Key("cifar10-vae", reading, name))["outcome"] for name in (adaptive.CLEAN, "Decoy")
        )
        statuses[reading] = by_attacker([better(decoy, unharmed)], [better(attacked, clean)])
        figures.append(
            f"{reading}: clean {percent(clean)}, {PGD.heading} {percent(attacked)}, {Column.PGD_ON_VAE.heading} "
            f"{percent(through)}, decoy, which knows the rule, {percent(decoy)}"
        )
    rule = "To hold: right more often attacked than clean, by the sign test. Against all attackers: also under decoy."
    return best_case(statuses, figures, rule)


@claim(
    "hard samples explain why accuracy under attack exceeds clean accuracy",
    "It is right where the classifier partially recognises a sample.",
)
def hard_samples(results: Results) -> Verdict:
    """Images that were wrong clean, and whose label ALU follows."""
    split, swapped = results.need(SPLIT), results.need(SWAPPED)
    if not unlikely(swapped):
        raise MissingCellError("artefacts, ranks in E2")
    wrong, follow = select(_alu(split["attacked"]), split["clean"]["bare"], "0"), unlikely(swapped)
    figures = [
        f"Of the images the classifier gets wrong clean, {percent(wrong)} are right under attack",
        "If the same attack is given a wrong label that the clean logits rank among the last five, one that nobody "
        f"would confuse, ALU answers that label on {percent(follow)}: it follows what the attacker chose",
    ]
    return Verdict(every([at_most(ones(follow), 0.1)]), figures, "To hold: ALU answers such a label on at most 10 %.")


EXPERIMENT = Experiment(
    Key,
    cells,
    measure,
    view,
    title="What explains the effect",
    question="Why is accuracy under attack higher than clean accuracy, and is the VAE needed for that?",
    sizes={"calibration": (2_500, 200), "n": (500, 40), "probe": (1_500, 200), "enlarged": (4, 4)},
    differs="Not in the paper.",
    why="500 test images come with the package.",
    claims=(above_clean, hard_samples),
)
