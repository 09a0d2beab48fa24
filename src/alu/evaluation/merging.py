"""Merging: the shards of one evaluation become one result, equal to that of one run. No torch here."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import fields
from typing import Any

from alu.errors import UsageError
from alu.evaluation.diagnostics import from_outcomes
from alu.evaluation.result import Answers, AttackRecord, Diagnostic, Result

Position = dict[tuple[int, int], int]
"""(shard, place in the shard) -> place in the whole."""
WORST_FIRST = ("failed", "not run", "passed")
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
    for name in ("subject", "dataset", "threat", "suite", "budget", "classes"):
        if getattr(first, name) != getattr(other, name):
            raise UsageError(f"These results cannot be merged: their {name} differs. Merge shards of one evaluation.")
    if first.provenance.get("seed") != other.provenance.get("seed"):
        raise UsageError(
            f"These results cannot be merged: their seeds are {first.provenance.get('seed')} and "
            f"{other.provenance.get('seed')}. Evaluate every shard with one seed."
        )
    for name in ("alu", "commit", "torch"):
        if first.provenance.get(name) != other.provenance.get(name):
            raise UsageError(
                f"These results cannot be merged: they come from different versions ({name} "
                f"{first.provenance.get(name)}, {other.provenance.get(name)}). Evaluate every shard with one version."
            )
    if first.shard[1] != other.shard[1]:
        raise UsageError(
            f"These results cannot be merged: one is of {first.shard[1]} shards, another of {other.shard[1]}. "
            "Merge shards of one evaluation."
        )
    attacks = [[(record.name, record.settings) for record in result.attacks] for result in (first, other)]
    if attacks[0] != attacks[1]:
        raise UsageError("These results cannot be merged: their attacks differ. Merge shards of one evaluation.")
    if set(first.numbers) & set(other.numbers):
        raise UsageError("These results cannot be merged: they share images. Merge shards of one evaluation.")
    if (first.bare is None) != (other.bare is None):
        raise UsageError(
            "These results cannot be merged: only some hold the attacks on the bare classifier. Evaluate every shard "
            "with the same settings."
        )
    if first.bare is not None and other.bare is not None:
        _refuse_different(first.bare, other.bare)


def _joined(results: list[Result]) -> Result:
    """The shards as one result, images in the order in which one run has them."""
    rows = _order(results)
    position = {(shard, place): new for new, (_, shard, place) in enumerate(rows)}
    whole = deepcopy(results[0])
    whole.shard = [0, 1]
    whole.numbers = [number for number, _, _ in rows]
    whole.labels = [results[shard].labels[place] for _, shard, place in rows]
    whole.clean = _interleaved([result.clean for result in results], position)
    for index, record in enumerate(whole.attacks):
        _join_attack(record, [result.attacks[index] for result in results], position)
    whole.unmet = _once(name for result in results for name in result.unmet)
    whole.diagnostics = _diagnostics(results, whole)
    whole.curves = {
        name: _added([result.curves.get(name, []) for result in results])
        for name in _once(name for result in results for name in result.curves)
    }
    if any(result.detection.get("harmless") for result in results):
        whole.detection["harmless"] = _added([result.detection.get("harmless", []) for result in results])
    whole.examples = [
        {**example, "image": position[shard, example["image"]]}
        for shard, result in enumerate(results)
        for example in result.examples
    ]
    whole.provenance = _provenance([result.provenance for result in results])
    bare = [result.bare for result in results if result.bare is not None]
    whole.bare = _joined(bare) if bare else None
    return whole


def _order(results: list[Result]) -> list[tuple[int, int, int]]:
    """(number, shard, place in the shard) of every image.

    A run goes through the images in blocks, and shards take the blocks in turn. Where the block size is not known,
    images are ordered by number.
    """
    rows = [(number, shard, place) for shard, part in enumerate(results) for place, number in enumerate(part.numbers)]
    sizes = {record.settings["batch_size"] for record in results[0].attacks if "batch_size" in record.settings}
    block_size = int(results[0].block_size or (sizes.pop() if len(sizes) == 1 else 0))
    if not block_size:
        return sorted(rows)
    return sorted(rows, key=lambda row: (row[2] // block_size, row[1], row[2]))


def _join_attack(record: AttackRecord, parts: list[AttackRecord], position: Position) -> None:
    distances = {
        position[shard, place]: value
        for shard, part in enumerate(parts)
        for place, value in zip(part.answers.images, part.distance, strict=True)
    }
    record.answers = _interleaved([part.answers for part in parts], position)
    record.distance = [distances[image] for image in record.answers.images]
    record.whole = all(part.whole for part in parts)
    record.seconds = sum(part.seconds for part in parts)
    record.forwards = sum(part.forwards for part in parts)
    record.backwards = sum(part.backwards for part in parts)
    record.notes = _once(note for part in parts for note in part.notes)
    record.failed = next((part.failed for part in parts if part.failed), "")


def _interleaved(parts: list[Answers], position: Position) -> Answers:
    rows = sorted(
        (position[shard, image], shard, place)
        for shard, part in enumerate(parts)
        for place, image in enumerate(part.images)
    )
    whole = Answers(images=[new for new, _, _ in rows])
    for item in fields(Answers):
        if item.name != "images" and any(getattr(part, item.name) for part in parts):
            setattr(whole, item.name, [getattr(parts[shard], item.name)[place] for _, shard, place in rows])
    return whole


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
    names = _once(item.id for result in results for item in result.diagnostics)
    again = {item.id: item for item in from_outcomes(whole)}
    joined = []
    for name in names:
        items = [item for result in results for item in result.diagnostics if item.id == name]
        joined.append(again[name] if name in again else min(items, key=lambda item: WORST_FIRST.index(item.status)))
    return joined


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
