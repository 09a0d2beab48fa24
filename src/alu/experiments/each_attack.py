"""Each adaptive attack alone, on all images, against every reading: which attack is meant for what.

python -m alu.experiments.each_attack --purifier pca --n 100 --out results/each-attack-pca.json
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alu import data
from alu.attacks import PGD
from alu.attacks import adaptive as informed
from alu.attacks.adaptive.pattern import case_three
from alu.attacks.adaptive.view import smoothly_purified
from alu.attacks.base import Attack
from alu.defense import Defense
from alu.evaluation.intervals import Share
from alu.evaluation.suite import BUDGETS
from alu.experiments.defenses import DEMO, bundled_defense
from alu.provenance import provenance
from alu.storage import write_json

NAMES = ("Direct", "Decoy", "Boost", "Pattern", "Stealth", "Match", "Soft", "Trajectory", "Transfer", "Query")


def run(
    purifier: str, n: int, budget: str, seed: int, eps: float = 8 / 255, say: Callable[[str], object] = lambda _: None
) -> dict[str, Any]:
    """Outcomes of each attack for each reading, as plain values."""
    test = data.sample("test").draw(n, seed)
    rows: dict[str, Any] = {}
    for reading in [reading for kind, reading in DEMO.values() if kind == purifier]:
        defense = bundled_defense(purifier=purifier, reading=reading)
        rows[reading] = {"clean": judged(defense, test.images, test.labels)}
        shown = PGD(eps=eps, steps=20, seed=seed)(smoothly_purified(defense), test.images, test.labels)
        rows[reading]["surrogate PGD-20"] = judged(defense, shown, test.labels)
        for name in NAMES:
            started = time.perf_counter()
            settings: dict[str, Any] = {"eps": eps, "seed": seed, "budget": budget, "steps": BUDGETS[budget]}
            attack: Attack = getattr(informed, name)(**settings)
            shown = attack(defense, test.images, test.labels)
            found = judged(defense, shown, test.labels)
            found["seconds"] = round(time.perf_counter() - started, 1)
            if name == "Pattern":
                with torch.no_grad():
                    before, after = defense.logits(test.images), defense.logits(shown)
                found["case three"] = case_three(before, after, test.labels).int().tolist()
            rows[reading][name] = found
            say(f"{reading}, {name}: {summary(found)} ({found['seconds']} s)")
    return {
        "purifier": purifier, "n": n, "budget": budget, "eps": eps, "rows": rows, "labels": test.labels.tolist(),
        "provenance": provenance(seed),
    }  # fmt: skip


def judged(defense: Defense, images: Tensor, labels: Tensor) -> dict[str, Any]:
    """Outcome (0 wrong, 1 correct, 2 rejected) and flag of each image."""
    decision = defense.decide(images)
    return {"outcome": decision.outcome(labels).tolist(), "flagged": decision.flagged.int().tolist()}


def summary(found: dict[str, Any]) -> str:
    """Right and resisted, with intervals."""
    outcome = found["outcome"]
    right, resisted = Share(outcome.count(1), len(outcome)), Share(len(outcome) - outcome.count(0), len(outcome))
    return f"right {right}, resisted {resisted}"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--purifier", choices=["pca", "vae"], default="pca")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--budget", choices=list(BUDGETS), default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found = run(
        options.purifier, options.n, options.budget, options.seed, say=lambda line: sys.stderr.write(line + "\n")
    )
    write_json(options.out, found)


if __name__ == "__main__":
    main()
