"""Diagnostics: everything an evaluation checks about itself. Ids are stable; docs/diagnostics.md explains them.

torch is imported where it is used: merged shards are diagnosed again from their outcomes, without it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from alu.errors import AluError
from alu.evaluation.metrics import WRONG, broken, outcomes
from alu.evaluation.result import Diagnostic, Result

if TYPE_CHECKING:
    from torch import Tensor

    from alu.attacks import Attack, GradientAttack
    from alu.evaluation.subject import Subject
    from alu.threat import ThreatModel

EPS_FACTORS = (0.25, 0.5, 1.0, 2.0)
LARGE = 64 / 255
STEPS = (5, 20, 60)
RESTARTS = 4
"""Restarts that are compared with one."""
NEED_GRADIENTS = ("eps-monotone", "eps-large", "more-steps", "more-restarts", "noise", "restarts")
BLACK_BOX = ("query", "square", "hopskipjump", "transfer")
STAGE = "Checking the evaluation itself"


def diagnose(
    subject: Subject,
    images: Tensor,
    labels: Tensor,
    threat: ThreatModel,
    seed: int,
    result: Result,
    watch: Callable[[str, int, int], None] = lambda *_: None,
    extra: Sequence[Attack] = (),
) -> tuple[list[Diagnostic], dict[str, Any]]:
    """All diagnostics, and the raw curves some of them read, on these (few) images.

    `extra` attacks, which are the user's own, are tested for whether they keep their best restart.
    """
    import torch

    from alu.attacks import PGD, GradientAttack
    from alu.evaluation import probes

    watch(STAGE, 0, 4)
    items = probes.steadiness(subject, images)
    watch(STAGE, 1, 4)
    items += probes.gradients(subject, images, labels)
    watch(STAGE, 2, 4)
    try:
        result.curves = curves = measure_curves(subject, images, labels, threat, seed)
    except AluError as error:
        missing = [Diagnostic(id, "not run", str(error)) for id in NEED_GRADIENTS]
        return [*from_outcomes(result), *items, *missing], {}
    items += from_curves(curves, threat)
    watch(STAGE, 3, 4)
    attacked = torch.tensor([row["broken"] for row in curves["probed"]], dtype=torch.bool, device=images.device)
    items.append(probes.noise(subject, images, labels, threat, attacked))
    makers = [partial(_restarted, PGD(norm=threat.norm, eps=threat.eps, seed=seed))]
    makers += [partial(_restarted, attack) for attack in extra if isinstance(attack, GradientAttack)]
    items.append(probes.restarts(subject, images, labels, makers))
    watch(STAGE, 4, 4)
    return [*from_outcomes(result), *items], curves


def curve_attack(subject: Subject, threat: ThreatModel, eps: float, steps: int, seed: int, restarts: int = 1) -> Attack:
    """The gradient attack that curves are measured with: margin PGD on what is deployed, by its cheapest gradient."""
    from alu.attacks import CWLinf
    from alu.attacks.adaptive import Direct, Stealth, levels

    settings: dict[str, Any] = {"norm": threat.norm, "eps": eps, "steps": steps, "seed": seed, "restarts": restarts}
    if subject.defense is None:
        return CWLinf(**settings)
    first = levels(subject.defense)[:1]
    if subject.defense.rule == "abstain":  # a flagged image is rejected, so the attack must avoid the detector
        return Stealth(levels=first, weights=(), **settings)
    return Direct(levels=first, **settings)


def measure_curves(subject: Subject, images: Tensor, labels: Tensor, threat: ThreatModel, seed: int) -> dict[str, Any]:
    """Raw curves, each point an attack of its own: correct answers against eps, steps and restarts."""
    import torch

    from alu.attacks.goals import fooled
    from alu.modes import evaluating

    def correct(eps: float, steps: int, restarts: int = 1) -> Tensor:
        attack = curve_attack(subject, threat, eps, steps, seed, restarts)
        with evaluating(subject.model, subject.classifier), torch.no_grad():
            return ~fooled(subject.model, attack(subject.model, images, labels), labels)

    def point(left: Tensor, attack: str, **at: float) -> dict[str, Any]:
        return {**at, "right": int(left.sum()), "n": len(images), "attack": attack}

    name = type(curve_attack(subject, threat, threat.eps, 20, seed)).__name__
    large = LARGE if threat.norm == "Linf" else 8 * threat.eps
    sizes = sorted({*(factor * threat.eps for factor in EPS_FACTORS), large})
    by_size = {eps: correct(eps, 20) for eps in sizes}
    usual = by_size[threat.eps]
    by_steps = {steps: usual if steps == 20 else correct(threat.eps, steps) for steps in STEPS}
    by_restarts = {1: usual, RESTARTS: correct(threat.eps, 20, RESTARTS)}
    return {
        "eps": [point(left, f"{name}-20", eps=eps) for eps, left in by_size.items()],
        "steps": [point(left, name, steps=steps) for steps, left in by_steps.items()],
        "restarts": [point(left, f"{name}-20", restarts=restarts) for restarts, left in by_restarts.items()],
        "probed": [{"image": image, "broken": int(not left)} for image, left in enumerate(usual.tolist())],
    }


def from_curves(curves: dict[str, Any], threat: ThreatModel) -> list[Diagnostic]:
    """What the raw curves show."""
    by_eps, by_steps = curves["eps"], curves["steps"]
    n, last = by_eps[0]["n"], by_eps[-1]
    few = max(1, 0.05 * n)

    def item(id: str, failed: bool, says: str, why: str = "") -> Diagnostic:
        return Diagnostic(id, "failed" if failed else "passed", f"{says} {why}" if failed and why else says)

    rises = any(high["right"] > low["right"] + slack(n) for low, high in pairwise(by_eps))
    sizes = ", ".join(f"{point['right']} at {_size(point['eps'], threat)}" for point in by_eps)
    steps = ", ".join(f"{point['right']} after {point['steps']}" for point in by_steps)
    once, often = curves["restarts"]
    return [
        item("eps-monotone", rises, f"Correct answers of {n} by eps: {sizes}.",
             "They should never increase with eps."),
        item("eps-large", last["right"] > few,
             f"{last['right']} of {n} answers are correct at eps {_size(last['eps'], threat)}, where an image can be "
             "turned into almost any other."),
        item("more-steps", by_steps[1]["right"] - by_steps[-1]["right"] > few,
             f"Correct answers of {n} by steps: {steps}.", "More steps still break more images."),
        item("more-restarts", once["right"] - often["right"] > few,
             f"Correct answers of {n}: {once['right']} after one start, {often['right']} after {often['restarts']}.",
             "More restarts still break more images."),
    ]  # fmt: skip


def from_outcomes(result: Result) -> list[Diagnostic]:
    """What the attacks' outcomes show about the attacks."""
    return [black_box(result), oblivious(result), inside(result), autoattack_flags(result)]


def black_box(result: Result) -> Diagnostic:
    """Attacks without the defence's gradients run last; images that they still break were missed by gradients."""
    n = len(result.labels)
    late = [record for record in result.attacks if record.name in BLACK_BOX and not record.failed]
    if not late:
        return Diagnostic("black-box", "not run", "No query or transfer attack was part of this suite.")
    counts = {record.name: broken(result, record) for record in late}
    best = max(counts, key=lambda name: counts[name])
    if counts[best] > 0.002 * n:
        points = 100 * counts[best] / n
        return Diagnostic(
            "black-box", "failed",
            f"{best} broke {counts[best]} images ({points:.1f} points) that every gradient attack had missed: "
            "gradients may be masked, or their budget too small.",
        )  # fmt: skip
    texts = ", ".join(f"{name} broke {count}" for name, count in counts.items())
    return Diagnostic("black-box", "passed", f"After the gradient attacks {texts} of {n} images.")


def oblivious(result: Result) -> Diagnostic:
    """Whether images made for another model break more of the probed images than the deployed output's gradient."""
    if result.shard[1] > 1:  # a shard numbers its images by itself
        return Diagnostic("oblivious", "not run", "It is computed when the shards are merged.")
    if result.subject.get("traits", {}).get("stochastic"):
        says = "For a random subject the worst of ten draws counts, which one gradient search cannot be compared with."
        return Diagnostic("oblivious", "not run", says)
    clean = outcomes(result.clean, result.labels)
    probed = {int(row["image"]): int(row["broken"]) for row in result.curves.get("probed", [])}
    chosen = [image for image in probed if clean.get(image, WRONG) != WRONG]
    counts = {}
    for record in result.attacks:
        if record.whole and record.knowledge == "oblivious" and not record.failed:
            after = outcomes(record.answers, result.labels)
            counts[record.name] = sum(after.get(image) == WRONG for image in chosen)
    if not counts or not chosen:
        says = "This suite has no oblivious attack, or there is no gradient search to compare it with."
        return Diagnostic("oblivious", "not run", says)
    best, by_gradient = max(counts, key=lambda name: counts[name]), sum(probed[image] for image in chosen)
    says = (
        f"Of {len(chosen)} images that are not answered wrongly when clean, {best}, which does not know the defence, "
        f"breaks {counts[best]}; one gradient search on the deployed output breaks {by_gradient}."
    )
    if counts[best] > by_gradient + slack(len(probed)):
        return Diagnostic("oblivious", "failed", f"{says} The deployed output's gradient is masked.")
    return Diagnostic("oblivious", "passed", says)


def inside(result: Result) -> Diagnostic:
    """Whether every image stayed inside the ball and inside [0, 1]."""
    left = [record.name for record in result.attacks if any(note.startswith("left-the-ball") for note in record.notes)]
    if left:
        says = f"Images of {', '.join(left)} are not allowed by the threat model."
        return Diagnostic("left-the-ball", "failed", says)
    return Diagnostic("left-the-ball", "passed", "Every attacked image lies inside the ball and inside [0, 1].")


def autoattack_flags(result: Result) -> Diagnostic:
    """AutoAttack's own warnings, verbatim."""
    ours = ("left-the-ball", "Left out: ")
    notes = [note for record in result.attacks for note in record.notes if not note.startswith(ours)]
    if notes:
        return Diagnostic("autoattack-flags", "failed", " ".join(dict.fromkeys(notes)))
    ran = [record for record in result.attacks if "autoattack" in record.name and not record.failed]
    if not any(record.answers.images for record in ran):
        says = "AutoAttack had no image left to attack." if ran else "AutoAttack was not part of this suite."
        return Diagnostic("autoattack-flags", "not run", says)
    return Diagnostic("autoattack-flags", "passed", "AutoAttack raised no flag.")


def _restarted(attack: GradientAttack, count: int) -> Attack:
    """The same search with few steps in a small ball, where a restart can still make a difference."""
    changed: Any = copy.copy(attack)
    changed.threat = replace(attack.threat, eps=attack.threat.eps / 8)
    changed.steps, changed.step_size, changed.restarts = 3, changed.threat.eps / 4, count
    return changed  # type: ignore[no-any-return]


def _size(eps: float, threat: ThreatModel) -> str:
    """In gray levels, or as a length in L2."""
    return f"{255 * eps:.3g}/255" if threat.norm == "Linf" else f"{eps:.3g}"


def slack(n: int) -> int:
    """By how many images two counts may differ before it means something."""
    return max(1, round(0.03 * n))
