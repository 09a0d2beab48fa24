"""Merging: the shards of one evaluation become one result, equal to that of one run. No torch here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import fields
from typing import Any

from alu.errors import UsageError
from alu.evaluation.diagnostics import from_outcomes
from alu.evaluation.result import STATUSES, Answers, Diagnostic, Result

COUNTS = ("right", "bare", "purified", "flagged", "rejected", "n")
"""Columns of curves and harmless changes that are counts of images."""


def merge(results: list[Result]) -> Result:
    """One result from the shards of one evaluation; results that do not belong together are refused."""
    if not results:
        raise UsageError("There is nothing to merge. Give the results of every shard.")
    first = results[0]
    for other in results[1:]:
        _refuse_different(first, other)
    count = first.shard[1]
    given = sorted(result.shard[0] for result in results)
    if given != list(range(count)):
        missing = sorted(set(range(count)) - set(given))
        what = f"shard {missing[0] + 1} of {count} is missing" if missing else "a shard is given twice"
        raise UsageError(f"These results are not one whole evaluation: {what}. Give each of its {count} shards once.")
    return _joined(sorted(results, key=lambda result: result.shard[0]))


def _refuse_different(first: Result, other: Result) -> None:
    for why, advice in _differences(first, other):
        raise UsageError(f"These results cannot be merged: {why}. {advice}")
    if first.bare is not None and other.bare is not None:
        _refuse_different(first.bare, other.bare)


def _differences(first: Result, other: Result) -> Iterator[tuple[str, str]]:
    """Why two results do not belong together, and what to do about it."""
    one_evaluation = "Merge shards of one evaluation."
    for name in ("subject", "dataset", "threat", "suite", "budget", "classes"):
        if getattr(first, name) != getattr(other, name):
            yield f"their {name} differs", one_evaluation
    one, two = first.provenance, other.provenance
    if one.get("seed") != two.get("seed"):
        yield f"their seeds are {one.get('seed')} and {two.get('seed')}", "Evaluate every shard with one seed."
    for name in ("alu", "commit", "torch"):
        if one.get(name) != two.get(name):
            why = f"they come from different versions ({name} {one.get(name)}, {two.get(name)})"
            yield why, "Evaluate every shard with one version."
    if first.shard[1] != other.shard[1]:
        yield f"one is of {first.shard[1]} shards, another of {other.shard[1]}", one_evaluation
    attacks = [[(record.name, record.settings) for record in result.attacks] for result in (first, other)]
    if attacks[0] != attacks[1]:
        yield "their attacks differ", one_evaluation
    if set(first.numbers) & set(other.numbers):
        yield "they share images", one_evaluation
    if (first.bare is None) != (other.bare is None):
        yield "only some hold the attacks on the bare classifier", "Evaluate every shard with the same settings."


def _joined(results: list[Result]) -> Result:
    """The shards as one result, images in the order in which one run has them."""
    order = _order(results)
    position = {pair: new for new, pair in enumerate(order)}
    whole, *others = [_moved(result, shard, position) for shard, result in enumerate(results)]
    for other in others:
        whole.clean.extend(other.clean)
        for record, more in zip(whole.attacks, other.attacks, strict=True):
            record.extend(more)
        whole.examples += other.examples
    whole.shard = [0, 1]
    whole.numbers = [results[shard].numbers[place] for shard, place in order]
    whole.labels = [results[shard].labels[place] for shard, place in order]
    _sort(whole.clean)
    for record in whole.attacks:
        record.distance = [record.distance[row] for row in _sort(record.answers)]
    whole.unmet = _once(name for result in results for name in result.unmet)
    whole.diagnostics = _diagnostics(results, whole)
    names = _once(name for result in results for name in result.curves)
    whole.curves = {name: _added([result.curves.get(name, []) for result in results]) for name in names}
    if harmless := _added([result.detection.get("harmless") or [] for result in results]):
        whole.detection["harmless"] = harmless
    whole.provenance = _provenance([result.provenance for result in results])
    bare = [result.bare for result in results if result.bare is not None]
    whole.bare = _joined(bare) if bare else None
    return whole


def _order(results: list[Result]) -> list[tuple[int, int]]:
    """(shard, place in the shard) of every image, in the order of one run.

    A run goes through the images in blocks, and shards take the blocks in turn. Where the block size is not known,
    images are ordered by number.
    """
    rows = [(shard, place) for shard, part in enumerate(results) for place in range(len(part.numbers))]
    sizes = {record.settings["batch_size"] for record in results[0].attacks if "batch_size" in record.settings}
    block_size = int(results[0].block_size or (sizes.pop() if len(sizes) == 1 else 0))
    if not block_size:
        return sorted(rows, key=lambda row: results[row[0]].numbers[row[1]])
    return sorted(rows, key=lambda row: (row[1] // block_size, *row))


def _moved(result: Result, shard: int, position: dict[tuple[int, int], int]) -> Result:
    """A copy of a shard's result whose images have their positions in the whole."""
    moved = deepcopy(result)
    for answers in (moved.clean, *(record.answers for record in moved.attacks)):
        answers.images = [position[shard, place] for place in answers.images]
    for example in moved.examples:
        example["image"] = position[shard, example["image"]]
    return moved


def _sort(answers: Answers) -> list[int]:
    """Put answers into the order of their images; the rows as they were, in that order."""
    rows = sorted(range(len(answers.images)), key=lambda row: answers.images[row])
    for item in fields(Answers):
        values = getattr(answers, item.name)
        if values:
            setattr(answers, item.name, [values[row] for row in rows])
    return rows


def _added(parts: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows of counts, those about the same thing summed."""
    sums: dict[str, dict[str, Any]] = {}
    for row in (row for part in parts for row in part):
        about = repr([(name, value) for name, value in row.items() if name not in COUNTS])
        total = sums.setdefault(about, {**row, **{name: 0 for name in COUNTS if name in row}})
        for name in COUNTS:
            if name in row:
                total[name] += row[name]
    return list(sums.values())


def _diagnostics(results: list[Result], whole: Result) -> list[Diagnostic]:
    """Those that are computed from outcomes are computed again; of every other check the worst status stays."""
    again = {item.id: item for item in from_outcomes(whole)}
    worst: dict[str, Diagnostic] = {}
    for item in (item for result in results for item in result.diagnostics):
        known = worst.setdefault(item.id, item)
        worst[item.id] = min(known, item, key=lambda one: STATUSES.index(one.status))
    return [again.get(id, item) for id, item in worst.items()]


def _provenance(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Times are summed; what differs between the shards' machines is listed."""
    joined = dict(parts[0])
    for name, value in joined.items():
        values = [part.get(name) for part in parts]
        if name.endswith("seconds"):
            joined[name] = sum(part.get(name, 0.0) for part in parts)
        elif any(other != value for other in values):
            joined[name] = "; ".join(_once(str(other) for other in values))
    return joined


def _once(names: Iterable[str]) -> list[str]:
    """In order, each once."""
    return list(dict.fromkeys(names))
