"""Assembly: the blocks of an evaluation become one result."""

from __future__ import annotations

from typing import Any

from alu.data.dataset import Dataset
from alu.evaluation.cascade import Evaluation, blank
from alu.evaluation.result import Judged, Result
from alu.evaluation.suite import Plan, unmet
from alu.evaluation.work import Block
from alu.provenance import provenance


def assembled(
    ready: Evaluation, blocks: list[Block], dataset: Dataset, plan: Plan, fingerprint: str, shard: tuple[int, int]
) -> Result:
    """One result from the blocks; positions become those among the images that were judged."""
    kept = [position for block in blocks for position in ready.positions(block.number)]
    place = {position: index for index, position in enumerate(kept)}
    clean = Judged()
    records = [blank(entry) for entry in ready.entries]
    examples: list[dict[str, Any]] = []
    for block in blocks:
        assert block.clean is not None
        clean.extend(block.clean)
        examples += block.examples
        for record, part in zip(records, block.attacks, strict=True):
            record.judged.extend(part.judged)
            record.distance += part.distance
            record.seconds += part.seconds
            record.forwards += part.forwards
            record.backwards += part.backwards
            record.notes = list(dict.fromkeys([*record.notes, *part.notes]))
            record.failed = record.failed or part.failed
    for judged in (clean, *(record.judged for record in records)):
        judged.images = [place[position] for position in judged.images]
    ran = [entry for entry, record in zip(ready.entries, records, strict=True) if not record.failed]
    failed = [record.name for record in records if record.failed]
    lacking = [*unmet(ready.subject.traits, ran), *([f"{', '.join(failed)} could not run"] if failed else [])]
    threat = {"norm": ready.threat.norm, "eps": ready.threat.eps}
    facts = {
        "name": dataset.name,
        "split": dataset.split,
        "n": len(dataset),
        "sha256": fingerprint,
        "block": ready.size,
    }
    numbers = [ready.numbers[position] for position in kept]
    labels = [int(ready.labels[position]) for position in kept]
    return Result(
        ready.subject.as_json(), facts, threat, plan.suite, plan.budget, labels, numbers, list(dataset.classes), clean,
        records, provenance(plan.seed), unmet=lacking, examples=examples, shard=list(shard),
    )  # fmt: skip
