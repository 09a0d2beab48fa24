"""The cascade: every attack of a suite on one block of images, cheap ones first, each on the images that no earlier
one has broken. After each attack the block is written to a folder, so that an interrupted evaluation can resume."""

from __future__ import annotations

import base64
import io
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alu.attacks.memory import remembering
from alu.decision import Decision
from alu.errors import AluError, StorageError
from alu.evaluation.metrics import WRONG, worst
from alu.evaluation.refusal import block_curves
from alu.evaluation.result import Answers, AttackRecord, Result, from_plain, to_plain
from alu.evaluation.suite import Entry, Evaluation, settings_of
from alu.evaluation.verdicts import eps_text
from alu.storage import read_checked, read_json, write_checked, write_json

EXAMPLES = 4
"""Images of the first block whose pictures are kept, for each attack."""
LONGEST = 100
"""Values of settings are quoted up to so many letters."""
NOT_QUOTED = {
    "images": "the images are not the same",
    "attacks": "the attacks' settings are not the same",
    "subject classifier_sha256": "the classifier's weights are not the same",
    "subject parts_sha256": "the fitted purifier or detector is not the same",
}
"""Settings whose values mean nothing to a reader."""


def differences(known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Every setting that differs, with both values where they are short; what follows from another is left out."""
    changed = {name for name in now if known.get(name) != now[name]}
    if changed & {"suite", "budget", "threat model", "seed", "block_size", "subject"}:
        changed.discard("attacks")
    if "n" in changed:
        changed.discard("images")
    texts = []
    for name in (name for name in now if name in changed):
        before, after = known.get(name), now[name]
        if isinstance(before, dict) and isinstance(after, dict) and name != "attacks":
            texts += _differences_inside(name, before, after)
        else:
            texts.append(_difference(name, before, after))
    return texts


def differences_from(result: Result, evaluation: Evaluation) -> list[str]:
    """The same against a finished result, for what the user chose: with other weights or another version it may be
    measured again."""
    known = {
        "subject": {"name": result.subject.get("name")},
        "data set": {name: result.dataset.get(name) for name in ("name", "split")},
        "n": result.dataset.get("n"), "threat model": dict(result.threat), "suite": result.suite,
        "budget": result.budget, "seed": result.provenance.get("seed"), "shard": list(result.shard),
    }  # fmt: skip
    settings = evaluation.settings()
    chosen = {
        name: {key: settings[name][key] for key in value} if isinstance(value, dict) else settings[name]
        for name, value in known.items()
    }
    return differences(known, chosen)


def _differences_inside(name: str, known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The same for settings that belong together."""
    if name == "threat model" and {"eps", "norm"} <= set(known):
        known, now = ({**one, "eps": eps_text(one["eps"], one["norm"])} for one in (known, now))
    keys = [key for key in {**known, **now} if known.get(key) != now.get(key)]
    if name == "subject" and "name" in keys:  # everything else about it follows
        keys = ["name"]
    return [_difference(f"{name} {key}", known.get(key), now.get(key)) for key in keys]


def _difference(name: str, known: Any, now: Any) -> str:
    if name in NOT_QUOTED:
        return NOT_QUOTED[name]
    if name == "shard" and known is not None:
        known, now = (f"{place + 1}/{count}" for place, count in (known, now))
    quoted = known is not None and not any(isinstance(value, dict | list) for value in (known, now))
    if quoted and max(len(str(value)) for value in (known, now)) <= LONGEST:
        return f"{name} was {known} and is now {now}"
    return f"{name} is not the same"


def open_folder(folder: Path, settings: dict[str, Any]) -> None:
    """Make the folder that an interrupted evaluation resumes from; one with other settings is refused."""
    facts = folder / "evaluation.json"
    if not facts.exists():
        write_json(facts, settings)
    try:
        known = read_json(facts)
    except StorageError as error:
        raise StorageError(f"{error} Delete the folder {folder} to start the evaluation again.") from error
    differs = differences(known if isinstance(known, dict) else {}, settings)
    if differs:
        raise StorageError(
            f"{folder} holds an interrupted evaluation with other settings: {'; '.join(differs)}. "
            "Finish it with its own settings, delete the folder, or choose another output."
        )


def attack_block(evaluation: Evaluation, folder: Path | None, number: int, step: Callable[[int], None]) -> Result:
    """All attacks on one block, from where it was left in the folder, as a result of its own.

    `step` is called with the number of passes that are done. Without a folder, everything stays in memory.
    """
    path = None if folder is None else folder / f"block-{number:04d}.json"
    if path is not None and path.exists():
        block = from_plain(read_checked(path, "a block of an evaluation", "Delete it to attack its images again."))
    else:
        positions = evaluation.positions(number)
        images, labels = evaluation.images[positions], evaluation.labels[positions]
        clean = evaluation.subject.answers(images, labels, range(len(positions)))
        block = blank_result(evaluation, positions, clean, [])
        _keep(block, path)
    step(1)
    with remembering(evaluation.subject.model, evaluation.subject.steady):
        for done, entry in enumerate(evaluation.attacks, start=1):
            if done > len(block.attacks):
                # Images that are correct so far, or rejected, are left to break.
                chosen = [image for image, value in worst(block).items() if entry.whole or value != WRONG]
                block.attacks.append(_attack(evaluation, entry, block, number, chosen))
                _keep(block, path)
            step(done + 1)
        if not block.curves and (curves := block_curves(evaluation, evaluation.positions(number))):
            block.curves = curves
            _keep(block, path)
    return block


def _keep(block: Result, path: Path | None) -> None:
    if path is not None:
        write_checked(path, to_plain(block))


def _attack(evaluation: Evaluation, entry: Entry, block: Result, number: int, chosen: list[int]) -> AttackRecord:
    """One attack on these images of a block, and the deployed answers to what it returns."""
    record, subject, threat = blank_record(entry), evaluation.subject, evaluation.threat
    if not chosen:
        return record
    positions = [evaluation.positions(number)[image] for image in chosen]
    images, labels = evaluation.images[positions], evaluation.labels[positions]
    started = time.perf_counter()
    try:
        with subject.counted(record):
            numbers = [block.numbers[image] for image in chosen]
            adversarial = entry.attack(subject.model, images, labels, numbers=numbers)
    except AluError as error:
        return replace(blank_record(entry), failed=str(error))
    except Exception as error:  # an attack that crashes on this subject must not cost the whole evaluation
        return replace(blank_record(entry), failed=f"It crashed: {type(error).__name__}: {error}")
    record.seconds = time.perf_counter() - started
    record.notes = [str(note) for note in getattr(entry.attack, "flags_", ())]
    if not bool(threat.contains(adversarial, images).all()):
        record.notes.append("left-the-ball: some images were moved farther than the threat model allows")
    record.answers = subject.answers(adversarial, labels, chosen)
    record.distance = [round(value, 6) for value in threat.distance(adversarial, images).tolist()]
    if number == 0:
        block.examples += _examples(evaluation, entry, positions, adversarial)
    return record


def _examples(evaluation: Evaluation, entry: Entry, positions: list[int], adversarial: Tensor) -> list[dict[str, Any]]:
    """Pictures (PNG data URIs), logits and answers of the first images, for a page."""
    defense, eps = evaluation.subject.defense, max(evaluation.threat.eps, 1e-9)
    if defense is None:
        return []
    decision = defense.decide(adversarial[:EXAMPLES])
    return [
        {
            "attack": entry.name, "image": position, "true": int(evaluation.labels[position]),
            **pictured(decision[place], evaluation.images[position], adversarial[place], eps),
        }
        for place, position in enumerate(positions[:EXAMPLES])
    ]  # fmt: skip


def pictured(decision: Decision, clean: Tensor, attacked: Tensor, eps: float) -> dict[str, Any]:
    """The decision on one attacked image, and its pictures."""
    score = float(decision.score)
    return {
        "answer": int(decision.label), "flagged": bool(decision.flagged),
        "score": None if math.isnan(score) else round(score, 4),
        "clean": png(clean), "adversarial": png(attacked),
        # Gray is no change; black and white are the whole of eps.
        "perturbation": png((attacked - clean) / eps / 2 + 0.5), "purified": png(decision.purified),
        "before": [round(value, 3) for value in decision.pre_logits.tolist()],
        "after": [round(value, 3) for value in decision.post_logits.tolist()],
    }  # fmt: skip


def png(image: Tensor) -> str:
    """A picture as a data URI; of more than three channels the first three are shown."""
    from PIL import Image

    pixels = (image.detach().cpu().clamp(0, 1) * 255).round().to(torch.uint8)[:3].permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] < 3 else pixels)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def blank_record(entry: Entry) -> AttackRecord:
    """The record of an attack before it has seen an image."""
    return AttackRecord(entry.name, entry.knowledge, entry.about, settings_of(entry.attack), entry.whole)


def blank_result(evaluation: Evaluation, positions: list[int], clean: Answers, attacks: list[AttackRecord]) -> Result:
    """The result of an evaluation for the images at these positions, with these outcomes."""
    dataset = evaluation.dataset
    return Result(
        subject=evaluation.subject.as_json(),
        dataset={
            "name": dataset.name, "split": dataset.split, "n": len(dataset), "sha256": evaluation.fingerprint,
            "block": evaluation.block_size,
        },
        threat={"norm": evaluation.threat.norm, "eps": evaluation.threat.eps},
        suite=evaluation.suite,
        budget=evaluation.budget,
        labels=[int(evaluation.labels[position]) for position in positions],
        numbers=[int(dataset.indices[position]) for position in positions],
        classes=list(dataset.classes),
        clean=clean,
        attacks=attacks,
        provenance=dict(evaluation.provenance),
        shard=list(evaluation.shard),
        left_out=evaluation.left_out,
    )  # fmt: skip
