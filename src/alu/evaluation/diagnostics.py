"""Diagnostics: everything an evaluation checks about itself. Ids are stable; docs/diagnostics.md explains them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from alu.attacks import PGD, Attack, CWLinf, GradientAttack
from alu.attacks.adaptive import Direct, Stealth, levels
from alu.attacks.goals import fooled
from alu.errors import AluError
from alu.evaluation import probes
from alu.evaluation.records import from_records
from alu.evaluation.result import Diagnostic, Result
from alu.evaluation.subject import Subject
from alu.modes import evaluating
from alu.threat import ThreatModel

SHARES = (0.25, 0.5, 1.0, 2.0)
LARGE = 64 / 255
STEPS = (5, 20, 60)
NEED_GRADIENTS = ("eps-monotone", "eps-large", "more-steps", "more-restarts", "noise", "restarts")
AGAIN = 4
"""Restarts that are compared with one."""


def diagnose(
    subject: Subject,
    images: Tensor,
    labels: Tensor,
    threat: ThreatModel,
    seed: int,
    result: Result,
    watch: Callable[[str, int, int], None] = lambda *_: None,
    given: Sequence[Attack] = (),
) -> tuple[list[Diagnostic], dict[str, Any]]:
    """All diagnostics, and the raw curves some of them read, on these (few) images; `given` attacks, which are not
    ours, are asked whether they keep their best restart."""
    watch("Checking the evaluation itself", 0, 4)
    found = probes.steadiness(subject, images)
    watch("Checking the evaluation itself", 1, 4)
    found += probes.gradients(subject, images, labels)
    watch("Checking the evaluation itself", 2, 4)
    try:
        result.curves = curves = measured(subject, images, labels, threat, seed)
    except AluError as error:
        missing = [Diagnostic(id, "not run", str(error)) for id in NEED_GRADIENTS]
        return [*from_records(result), *found, *missing], {}
    found += read(curves, threat)
    watch("Checking the evaluation itself", 3, 4)
    broken = torch.tensor([row["broken"] for row in curves["probed"]], dtype=torch.bool, device=images.device)
    found.append(probes.noise(subject, images, labels, threat, broken))
    makers = [partial(_restarted, PGD(norm=threat.norm, eps=threat.eps, seed=seed))]
    makers += [partial(_restarted, attack) for attack in given if isinstance(attack, GradientAttack)]
    found.append(probes.restarts(subject, images, labels, makers))
    watch("Checking the evaluation itself", 4, 4)
    return [*from_records(result), *found], curves


def probe(subject: Subject, threat: ThreatModel, eps: float, steps: int, seed: int, restarts: int = 1) -> Attack:
    """The gradient attack that curves are measured with: margin PGD on what is deployed, by its cheapest gradient."""
    same: dict[str, Any] = {"norm": threat.norm, "eps": eps, "steps": steps, "seed": seed, "restarts": restarts}
    if subject.defense is None:
        return CWLinf(**same)
    first = levels(subject.defense)[:1]
    # Where a flagged image is rejected, only who hides gets anywhere.
    return (
        Stealth(levels=first, weights=(), **same) if subject.defense.rule == "abstain" else Direct(levels=first, **same)
    )


def measured(subject: Subject, images: Tensor, labels: Tensor, threat: ThreatModel, seed: int) -> dict[str, Any]:
    """Raw curves, each point an attack of its own: right answers against eps, and against steps."""

    def right(eps: float, steps: int, restarts: int = 1) -> Tensor:
        attack = probe(subject, threat, eps, steps, seed, restarts)
        with evaluating(subject.model, subject.classifier), torch.no_grad():
            shown = attack(subject.model, images, labels)
            return ~fooled(subject.model, shown, labels)

    name = type(probe(subject, threat, threat.eps, 20, seed)).__name__
    large = LARGE if threat.norm == "Linf" else 8 * threat.eps
    by_eps, at_eps = [], torch.ones(len(images), dtype=torch.bool)
    for eps in sorted({*(share * threat.eps for share in SHARES), large}):
        kept = right(eps, 20)
        at_eps = kept if eps == threat.eps else at_eps
        by_eps.append({"eps": eps, "right": int(kept.sum()), "n": len(images), "attack": f"{name}-20"})
    by_steps = []
    for steps in STEPS:
        kept = at_eps if steps == 20 else right(threat.eps, steps)
        by_steps.append({"steps": steps, "right": int(kept.sum()), "n": len(images), "attack": name})
    by_restarts = []
    for restarts in (1, AGAIN):
        kept = at_eps if restarts == 1 else right(threat.eps, 20, restarts)
        by_restarts.append({"restarts": restarts, "right": int(kept.sum()), "n": len(images), "attack": f"{name}-20"})
    fallen = [{"image": image, "broken": int(not kept)} for image, kept in enumerate(at_eps.tolist())]
    return {"eps": by_eps, "steps": by_steps, "restarts": by_restarts, "probed": fallen}


def read(curves: dict[str, Any], threat: ThreatModel) -> list[Diagnostic]:
    """What the raw curves say."""
    by_eps, by_steps = curves["eps"], curves["steps"]
    n = by_eps[0]["n"]
    rises = [(low, high) for low, high in pairwise(by_eps) if high["right"] > low["right"] + slack(n)]
    texts = ", ".join(f"{point['right']} at {_size(point['eps'], threat)}" for point in by_eps)
    made = [
        Diagnostic(
            "eps-monotone",
            "failed" if rises else "passed",
            f"Right answers of {n} against eps: {texts}." + (" A larger ball should never help." if rises else ""),
        )
    ]
    left = by_eps[-1]["right"]
    made.append(
        Diagnostic(
            "eps-large",
            "passed" if left <= max(1, 0.05 * n) else "failed",
            f"{left} of {n} are right when the ball holds almost anything ({_size(by_eps[-1]['eps'], threat)}).",
        )
    )
    texts = ", ".join(f"{point['right']} after {point['steps']}" for point in by_steps)
    helps = by_steps[1]["right"] - by_steps[-1]["right"] > max(1, 0.05 * n)
    made.append(
        Diagnostic(
            "more-steps",
            "failed" if helps else "passed",
            f"Right answers of {n} against steps: {texts}." + (" More steps still help." if helps else ""),
        )
    )
    once, often = curves["restarts"]
    helps = once["right"] - often["right"] > max(1, 0.05 * n)
    says = f"Right answers of {n}: {once['right']} after one start, {often['right']} after {often['restarts']}."
    made.append(
        Diagnostic(
            "more-restarts", "failed" if helps else "passed", says + (" More restarts still help." if helps else "")
        )
    )
    return made


def _restarted(attack: GradientAttack, count: int) -> Attack:
    """The same search with few steps in a small ball, where a restart can still make a difference."""
    made: Any = copy.copy(attack)
    made.threat = replace(attack.threat, eps=attack.threat.eps / 8)
    made.steps, made.step_size, made.restarts = 3, made.threat.eps / 4, count
    return made  # type: ignore[no-any-return]


def _size(eps: float, threat: ThreatModel) -> str:
    """In gray levels, or as a length in L2."""
    return f"{255 * eps:.3g}/255" if threat.norm == "Linf" else f"{eps:.3g}"


def slack(n: int) -> int:
    """By how many images a raw curve may rise before it means something."""
    return max(1, round(0.03 * n))
