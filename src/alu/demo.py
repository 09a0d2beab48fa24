"""The demo: where each defence works and where it does not, on real images, in two minutes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alu import data, models
from alu.attacks import PGD, fooled
from alu.attacks.adaptive import AdaptiveAttack, Confident, Direct
from alu.attacks.adaptive.view import smoothly_purified
from alu.attacks.goals import refuses_by_search
from alu.decision import Decision, Evidence, Outcome
from alu.defense import Defense
from alu.detectors import Certificate
from alu.evaluation.cascade import pictured
from alu.loading import load_bundled_defense
from alu.progress import Count, Watch, silent
from alu.provenance import provenance

EPS = 8 / 255
BARE, MAIN = "classifier alone", "VAE + ALU (input)"
"""The classifier without a defence, and the defence whose scores and pictures are shown."""
DEFENSES = {MAIN: "demo", "VAE + ALU (reconstruction)": "demo-reconstruction", "PCA-500 + ALU (input)": "demo-pca"}
"""The names of bundled defences, by the title of their row."""
ROBUST, CHECK = "cifar10-at", "cifar10-at+check"
SMOOTH, SIGMA = "cifar10-smooth", 0.25
"""The classifier of the certificate, and the noise it was trained with."""
RADIUS, SAMPLES, CHOOSING = 0.25, 1_000, 20
"""What the certificate must prove (L2), the noisy copies that prove it, and those that choose the class."""
Groups = list[tuple[dict[str, Defense], dict[str, Tensor]]]
"""Defences by the title of their row, with the images of each column: all defences of a group share a classifier."""


@dataclass
class DemoResult:
    """Outcomes per row and column, a few images, and where they come from; plain values only."""

    rows: list[dict[str, Any]]
    """The name, and for each column whether each image is answered correctly, whether it is flagged (None where flags
    change nothing) and whether it is answered (None where everything is). The column "everything" has the images that
    are right when clean and that no attack made for this row gets answered wrongly; "proven" is the L2 radius within
    which that is proven, None where it is measured."""
    examples: list[dict[str, Any]]
    scores: dict[str, list[float]]
    threshold: float
    classes: list[str]
    setting: dict[str, Any]


def run_demo(n: int = 200, seed: int = 0, device: str = "cpu", watch: Watch = silent) -> DemoResult:
    """Attack bundled classifiers on `n` bundled test images and let every defence answer."""
    test = data.sample("test").draw(n, seed)
    images, labels = test.images.to(device), test.labels.to(device)
    calibrating = partial(watch, "Calibrating on clean images")
    loaded = {title: load_bundled_defense(name, calibrating).to(device) for title, name in DEFENSES.items()}
    main = loaded[MAIN]
    assert main.detector is not None
    attacked = attacked_images(main, images, labels, seed, watch)
    purifying = {
        BARE: Defense(main.classifier, rule="purified"),
        "VAE, purified only": main.with_rule("purified"),
        "VAE, rule graded": main.with_rule("graded"),
        **loaded,
    }
    groups = [(purifying, attacked), *refusing(images, labels, seed, device, watch)]
    rows: list[dict[str, Any]] = []
    decided: dict[str, dict[str, Decision]] = {}
    for defenses, columns in groups:
        for column, given in columns.items():
            for title, decision in decide_all(defenses, given, partial(watch, f"Defending: {column}")).items():
                decided.setdefault(title, {})[column] = decision
        for title, defense in defenses.items():
            kept = kept_by(defense, decided[title], images, labels, seed, partial(watch, f"Attacking: {title}"))
            rows.append(_row(title, defense, decided[title], labels, kept))
    return DemoResult(
        rows=rows,
        examples=_examples(attacked, decided[MAIN], labels),
        scores={column: [round(float(s), 4) for s in decided[MAIN][column].score] for column in attacked},
        threshold=float(main.detector.threshold_),
        classes=list(test.classes),
        setting={
            **provenance(seed), "n": n, "calibration images": len(main.detector.scores_),
            "false-alarm rate": main.detector.false_alarm, "eps": "8/255",
            "classifier": "cifar10-standard", "VAE": "cifar10-vae, 20 steps of Adam, lr 0.05 falling to 0",
            "PCA": "500 directions of 10,000 training images",
            "attack that knows everything": "every column, then Direct, 20 steps; on the check: Confident, 20 steps",
            "check": f"{ROBUST}, radius 2/255",
            **({"certificate": f"{SMOOTH}, noise {SIGMA}, {SAMPLES:,} samples, alpha 0.001"} if _provable() else {}),
        },
    )  # fmt: skip


def attacked_images(defense: Defense, images: Tensor, labels: Tensor, seed: int, watch: Watch) -> dict[str, Tensor]:
    """The images of every column, for defences that purify."""
    attack = PGD(eps=EPS, steps=20, seed=seed)
    wrong = (labels + 1) % 10
    return {
        "clean": images,
        "pgd": attack(defense.classifier, images, labels, partial(watch, "Attacking: pgd")),
        "decoy": attack(defense.classifier, images, wrong, partial(watch, "Attacking: decoy")),
        "surrogate": attack(smoothly_purified(defense), images, labels, partial(watch, "Attacking: through the VAE")),
    }


def refusing(images: Tensor, labels: Tensor, seed: int, device: str, watch: Watch) -> Groups:
    """The robust classifier, alone and behind its check; and the certificate, if its classifier is bundled. There is no
    VAE to go through and no risen logit to plant, so that they have fewer columns."""
    check = load_bundled_defense(CHECK).to(device)
    attack = PGD(eps=EPS, steps=20, seed=seed)
    pgd = attack(check.classifier, images, labels, partial(watch, "Attacking: pgd, robust classifier"))
    robust = {"robust classifier alone": Defense(check.classifier, rule="purified"), "robust classifier + check": check}
    groups: Groups = [(robust, {"clean": images, "pgd": pgd})]
    if _provable():
        smoothed = models.Smoothed(models.load(SMOOTH), SIGMA, seed=seed)
        proof = Certificate(RADIUS, n=SAMPLES, n0=CHOOSING)
        certificate = Defense(smoothed, detector=proof, rule="abstain").to(device)
        groups.append(({"certificate": certificate}, {"clean": images}))
    return groups


@torch.no_grad()
def decide_all(defenses: dict[str, Defense], images: Tensor, watch: Count, batch_size: int = 20) -> dict[str, Decision]:
    """What each defence decides; those that differ only in their rule share their evidence."""
    parts: dict[str, list[Decision]] = {title: [] for title in defenses}
    for start in range(0, len(images), batch_size):
        batch, known = images[start : start + batch_size], dict[Any, Evidence]()
        for title, defense in defenses.items():
            made = (defense.classifier, defense.purifier, defense.reference)
            if made not in known:
                known[made] = defense.evidence(batch)
            parts[title].append(defense.judge(known[made]))
        watch(start + len(batch), len(images))
    return {title: Decision.join(some) for title, some in parts.items()}


def kept_by(
    defense: Defense, decisions: dict[str, Decision], images: Tensor, labels: Tensor, seed: int, watch: Count
) -> Tensor:
    """Whether an image is right when clean and never answered wrongly: in no column, nor under an attack on this very
    defence [N]. A certificate proves that, and is not attacked."""
    outcomes = {column: decision.outcome(labels) for column, decision in decisions.items()}
    kept = outcomes["clean"] == Outcome.CORRECT
    for outcome in outcomes.values():
        kept = kept & (outcome != Outcome.WRONG)
    at = kept.nonzero().flatten()
    if isinstance(defense.detector, Certificate) or not len(at):
        return kept
    attack = own_attack(defense, seed)
    adversarial = attack(defense, images[at], labels[at], watch, numbers=at.tolist())
    kept[at] = ~fooled(defense, adversarial, labels[at])
    return kept


def own_attack(defense: Defense, seed: int) -> AdaptiveAttack:
    """A short attack by someone who knows all of the defence."""
    if refuses_by_search(defense):
        return Confident(eps=EPS, steps=20, budget="quick", seed=seed)
    return Direct(eps=EPS, steps=20, budget="quick", seed=seed)


def _provable() -> bool:
    return SMOOTH in models.names()


def _row(
    name: str, defense: Defense, decisions: dict[str, Decision], labels: Tensor, kept: Tensor
) -> dict[str, Any]:  # fmt: skip
    rejects, flags = defense.rule_.rejects, defense.rule_.uses_flags
    columns: dict[str, dict[str, Any]] = {
        column: {
            "correct": _bits(decision.outcome(labels) == Outcome.CORRECT),
            "flagged": _bits(decision.flagged) if flags else None,
            "answered": _bits(decision.accepted) if rejects else None,
        }
        for column, decision in decisions.items()
    }
    # Two answers that are each proven within the radius cannot lie closer than twice the radius.
    proven = 2 * RADIUS if isinstance(defense.detector, Certificate) else None
    columns["everything"] = {"correct": _bits(kept), "flagged": None, "answered": None, "proven": proven}
    return {"name": name, "columns": columns}


def _bits(values: Tensor) -> list[int]:
    return [int(value) for value in values]


def _examples(attacked: dict[str, Tensor], decisions: dict[str, Decision], labels: Tensor) -> list[dict[str, Any]]:
    """Three images, clean and under the first two attacks: pictures, and logits before and after."""
    return [
        {
            "column": column,
            "true": int(labels[index]),
            **pictured(decisions[column][index], attacked["clean"][index], attacked[column][index], EPS),
        }
        for index in range(3)
        for column in ("clean", "pgd", "decoy")
    ]
