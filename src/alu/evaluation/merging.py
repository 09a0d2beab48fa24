"""Merging: the shards of one evaluation become one result, equal to that of one run. No torch here."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from typing import Any

from alu.errors import UsageError
from alu.evaluation.diagnostics import from_outcomes
from alu.evaluation.result import Answers, Result


def merge(results: list[Result]) -> Result:
    """One result from the shards of one evaluation; results that do not belong together are refused."""
    if not results:
        raise UsageError("There is nothing to merge. Give the results of every shard.")
    first, *others = results
    shared = _shared(first)
    for other in others:
        for name, value in _shared(other).items():
            if value != shared[name]:
                values = f" ({shared[name]} and {value})" if isinstance(value, str | int) else ""
                raise UsageError(
                    f"These results cannot be merged: they differ in {name}{values}. Merge the shards of one "
                    "evaluation, which have the same settings, seed and version."
                )
        if set(first.numbers) & set(other.numbers):
            raise UsageError("These results cannot be merged: they share images. Give each shard once.")
    count = first.shard[1]
    missing = sorted(set(range(count)) - {result.shard[0] for result in results})
    if missing:
        raise UsageError(
            f"These results are not one whole evaluation: shard {missing[0] + 1} of {count} is missing. Give all of "
            f"its {count} shards."
        )
    return _joined(sorted(results, key=lambda result: result.shard[0]))


def _shared(result: Result) -> dict[str, Any]:
    """What is the same in all shards of one evaluation."""
    origin = result.provenance
    return {
        "what was evaluated": result.subject,
        "the data set": result.dataset,
        "the class names": result.classes,
        "the threat model": result.threat,
        "the suite": result.suite,
        "the budget": result.budget,
        "the seed": origin.get("seed"),
        "the version of alu": origin.get("alu"),
        "the commit of alu": origin.get("commit"),
        "the version of torch": origin.get("torch"),
        "the number of shards": result.shard[1],
        "the attacks": [(record.name, record.settings) for record in result.attacks],
        "the attacks on the bare classifier": None if result.bare is None else _shared(result.bare),
        "refusal by confidence": None if result.rival is None else _shared(result.rival),
    }


def _joined(results: list[Result]) -> Result:
    """The shards as one result, images in the order in which one run has them.

    Examples, curves, harmless changes and diagnostics come from the first shard, which alone measures them; diagnostics
    of the outcomes are computed again.
    """
    whole = deepcopy(results[0])
    for other in results[1:]:
        whole.extend(other)
    order = _order(results)
    position = {old: new for new, old in enumerate(order)}
    whole.shard = [0, 1]
    whole.numbers = [whole.numbers[image] for image in order]
    whole.labels = [whole.labels[image] for image in order]
    _sort(whole.clean, position)
    for record in whole.attacks:
        record.distance = [record.distance[row] for row in _sort(record.answers, position)]
    for example in whole.examples:
        example["image"] = position[example["image"]]
    if bounds := whole.curves.get("bounds"):
        moved = [{**row, "image": position[row["image"]]} for row in bounds]
        whole.curves["bounds"] = sorted(moved, key=lambda row: row["image"])
    whole.unmet = list(dict.fromkeys(name for result in results for name in result.unmet))
    again = {item.id: item for item in from_outcomes(whole)}
    whole.diagnostics = [again.get(item.id, item) for item in whole.diagnostics]
    whole.provenance = _provenance([result.provenance for result in results])
    for name in ("bare", "rival"):
        if getattr(whole, name) is not None:
            setattr(whole, name, _joined([getattr(result, name) for result in results]))
    return whole


def _order(results: list[Result]) -> list[int]:
    """The images of all shards, counted through, in the order of one run.

    A run goes through the images in blocks, and shards take the blocks in turn. Where the block size is not known,
    images are ordered by number.
    """
    rows = [(shard, place) for shard, result in enumerate(results) for place in range(len(result.numbers))]
    sizes = {record.settings["batch_size"] for record in results[0].attacks if "batch_size" in record.settings}
    block_size = int(results[0].block_size or (sizes.pop() if len(sizes) == 1 else 0))

    def key(image: int) -> tuple[int, ...]:
        shard, place = rows[image]
        return (place // block_size, shard, place) if block_size else (results[shard].numbers[place],)

    return sorted(range(len(rows)), key=key)


def _sort(answers: Answers, position: dict[int, int]) -> list[int]:
    """Give images their new positions, and answers the order of their images; the rows as they were, in that order."""
    answers.images = [position[image] for image in answers.images]
    rows = sorted(range(len(answers.images)), key=lambda row: answers.images[row])
    for item in fields(Answers):
        values = getattr(answers, item.name)
        if values:
            setattr(answers, item.name, [values[row] for row in rows])
    return rows


def _provenance(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The first shard's; what differs between the shards' machines is listed."""
    joined = dict(parts[0])
    for name in joined:
        values = list(dict.fromkeys(str(part.get(name)) for part in parts))
        if len(values) > 1:
            joined[name] = "; ".join(values)
    return joined
