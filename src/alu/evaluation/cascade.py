"""The cascade: every attack of a suite on one block of images, cheap ones first, each on what is left standing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from alu.errors import AluError
from alu.evaluation.examples import example
from alu.evaluation.metrics import WRONG, outcomes
from alu.evaluation.result import AttackRecord, Judged
from alu.evaluation.subject import Subject
from alu.evaluation.suite import Entry
from alu.evaluation.work import Block, Work
from alu.threat import ThreatModel

EXAMPLES = 4
"""Images of the first block whose pictures are kept, for each attack."""


@dataclass(frozen=True)
class Evaluation:
    """Everything that stays the same from block to block."""

    subject: Subject
    images: Tensor
    labels: Tensor
    numbers: list[int]
    entries: list[Entry]
    threat: ThreatModel
    work: Work
    size: int

    def positions(self, block: int) -> list[int]:
        """The images of a block, as positions in the data set."""
        return list(range(block * self.size, min((block + 1) * self.size, len(self.images))))


def attacked_block(ready: Evaluation, number: int, step: Callable[[int], None]) -> Block:
    """All attacks on one block, from where it was left."""
    block, positions = ready.work.read(number), ready.positions(number)
    images, labels = ready.images[positions], ready.labels[positions]
    if block.clean is None:
        block.clean = ready.subject.judge(images, labels, positions)
        ready.work.write(block)
    step(1)
    for done, entry in enumerate(ready.entries, start=1):
        if done > len(block.attacks):
            block.attacks.append(_attacked(ready, entry, block, positions))
            ready.work.write(block)
        step(done + 1)
    return block


def _attacked(ready: Evaluation, entry: Entry, block: Block, positions: list[int]) -> AttackRecord:
    assert block.clean is not None
    chosen = positions if entry.whole else _standing(ready, block)
    record = blank(entry)
    if not chosen:
        return record
    images, labels = ready.images[chosen], ready.labels[chosen]
    started = time.perf_counter()
    with ready.subject.counted() as cost:
        try:
            numbers = [ready.numbers[position] for position in chosen]
            found = entry.attack(ready.subject.model, images, labels, numbers=numbers)
        except AluError as error:
            record.failed = str(error)
            return record
        except Exception as error:  # an attack that breaks on this subject must not cost the whole evaluation
            record.failed = f"It broke: {type(error).__name__}: {error}"
            return record
    record.seconds, record.forwards, record.backwards = time.perf_counter() - started, cost.forwards, cost.backwards
    record.notes = [str(note) for note in getattr(entry.attack, "flags_", ())]
    if not bool(ready.threat.contains(found, images).all()):
        record.notes.append("left-the-ball: some images were moved farther than the threat model allows")
    record.judged = ready.subject.judge(found, labels, chosen)
    record.distance = [round(value, 6) for value in ready.threat.distance(found, images).tolist()]
    if block.number == 0:
        block.examples += _examples(ready, entry, images, found, labels, record.judged)
    return record


def _standing(ready: Evaluation, block: Block) -> list[int]:
    """Images of the block that are right so far, or rejected: what is left to break."""
    assert block.clean is not None
    labels = ready.labels.tolist()
    fallen = {
        image
        for judged in (block.clean, *(record.judged for record in block.attacks))
        for image, value in outcomes(judged, labels).items()
        if value == WRONG
    }
    return [image for image in block.clean.images if image not in fallen]


def _examples(
    ready: Evaluation, entry: Entry, images: Tensor, found: Tensor, labels: Tensor, judged: Judged
) -> list[dict[str, Any]]:
    if ready.subject.defense is None:
        return []
    decision = ready.subject.defense.decide(found[:EXAMPLES])
    return [
        example(
            entry.name,
            judged.images[place],
            images[place],
            found[place],
            int(labels[place]),
            decision,
            place,
            ready.threat.eps,
        )
        for place in range(min(EXAMPLES, len(found)))
    ]


def blank(entry: Entry) -> AttackRecord:
    """The record of an attack before it has seen an image."""
    return AttackRecord(entry.name, entry.knowledge, entry.about, settings_of(entry.attack), entry.whole)


def settings_of(attack: Any) -> dict[str, Any]:
    """An attack's class and its plain settings."""
    inner = getattr(attack, "attack", attack)
    plain = (str, int, float, bool, type(None))
    facts = {key: value for key, value in vars(inner).items() if isinstance(value, plain) and not key.startswith("_")}
    return {"class": type(inner).__name__, **facts}
