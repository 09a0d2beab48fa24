"""Merging: the shards of one evaluation become one result, equal to that of one run. No torch here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from alu.errors import UsageError
from alu.evaluation.records import from_records
from alu.evaluation.result import AttackRecord, Diagnostic, Judged, Result, from_plain

Position = dict[tuple[int, int], int]
"""(shard, place in the shard) -> place in the whole."""
VERDICTS = ("failed", "not run", "passed")
"""The worst first."""


def merge(results: list[Result]) -> Result:
    """One result from the shards of one evaluation; anything that does not belong together is refused."""
    if not results:
        raise UsageError("There is nothing to merge. Give the results of every shard.")
    first = results[0]
    for other in results[1:]:
        _refuse_stranger(first, other)
    count = first.shard[1]
    seen = sorted(result.shard[0] for result in results)
    if seen != list(range(count)):
        missing = sorted(set(range(count)) - set(seen))
        what = f"shard {missing[0] + 1} of {count} is missing" if missing else "a shard is given twice"
        raise UsageError(f"These results are not one whole evaluation: {what}. Give each of its {count} shards once.")
    return _joined(sorted(results, key=lambda result: result.shard[0]))


def _refuse_stranger(first: Result, other: Result) -> None:
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
            "These results cannot be merged: only some hold the bare classifier's own attacks. Evaluate every shard "
            "with the same settings."
        )
    if first.bare is not None and other.bare is not None:
        _refuse_stranger(first.bare, other.bare)


def _joined(results: list[Result]) -> Result:
    """The shards as one result, images in the order in which one run has them."""
    order = _order(results)
    position = {(shard, place): new for new, (_, shard, place) in enumerate(order)}
    made = from_plain(asdict(results[0]))
    made.shard = [0, 1]
    made.labels = [results[shard].labels[place] for _, shard, place in order]
    made.numbers = [number for number, _, _ in order]
    made.clean = _interleaved([result.clean for result in results], position)
    for index, record in enumerate(made.attacks):
        _join_attack(record, [result.attacks[index] for result in results], position)
    made.unmet = _once(name for result in results for name in result.unmet)
    made.diagnostics = _diagnostics(results, made)
    made.curves = {
        name: _added([result.curves.get(name, []) for result in results])
        for name in _once(name for result in results for name in result.curves)
    }
    if any(result.detection.get("harmless") for result in results):
        made.detection["harmless"] = _added([result.detection.get("harmless", []) for result in results])
    made.examples = [
        {**example, "image": position[shard, example["image"]]}
        for shard, result in enumerate(results)
        for example in result.examples
    ]
    made.provenance = _provenance([result.provenance for result in results])
    bare = [result.bare for result in results if result.bare is not None]
    made.bare = _joined(bare) if bare else None
    return made


def _order(results: list[Result]) -> list[tuple[int, int, int]]:
    """(number, shard, place in the shard) of every image.

    A run goes through the images in blocks, as many as it attacks at once, and shards take the blocks in turn. Where
    the block is not known, images stand by number.
    """
    rows = [(number, shard, place) for shard, part in enumerate(results) for place, number in enumerate(part.numbers)]
    blocks = {record.settings["batch_size"] for record in results[0].attacks if "batch_size" in record.settings}
    size = int(results[0].dataset.get("block") or (blocks.pop() if len(blocks) == 1 else 0))
    if not size:
        return sorted(rows)
    return sorted(rows, key=lambda row: (row[2] // size, row[1], row[2]))


def _join_attack(record: AttackRecord, parts: list[AttackRecord], position: Position) -> None:
    distances = {
        position[shard, place]: value
        for shard, part in enumerate(parts)
        for place, value in zip(part.judged.images, part.distance, strict=True)
    }
    record.judged = _interleaved([part.judged for part in parts], position)
    record.distance = [distances[image] for image in record.judged.images]
    record.whole = all(part.whole for part in parts)
    record.seconds = sum(part.seconds for part in parts)
    record.forwards = sum(part.forwards for part in parts)
    record.backwards = sum(part.backwards for part in parts)
    record.notes = _once(note for part in parts for note in part.notes)
    record.failed = next((part.failed for part in parts if part.failed), "")


def _interleaved(parts: list[Judged], position: Position) -> Judged:
    rows = sorted(
        (position[shard, image], shard, place)
        for shard, part in enumerate(parts)
        for place, image in enumerate(part.images)
    )
    made = Judged(images=[new for new, _, _ in rows])
    for item in fields(Judged):
        if item.name != "images" and any(getattr(part, item.name) for part in parts):
            setattr(made, item.name, [getattr(parts[shard], item.name)[place] for _, shard, place in rows])
    return made


def _added(parts: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Rows of counts, those about the same thing summed."""
    counts = ("right", "bare", "purified", "flagged", "rejected", "n")
    made: dict[str, dict[str, Any]] = {}
    for row in (row for part in parts for row in part):
        about = repr([(name, value) for name, value in row.items() if name not in counts])
        kept = made.setdefault(about, {**row, **{name: 0 for name in counts if name in row}})
        for name in counts:
            if name in row:
                kept[name] += row[name]
    return list(made.values())


def _diagnostics(results: list[Result], made: Result) -> list[Diagnostic]:
    """What was read off the outcomes is read again; of every other check the worst verdict stays."""
    names = _once(item.id for result in results for item in result.diagnostics)
    again = {item.id: item for item in from_records(made)}
    joined = []
    for name in names:
        found = [item for result in results for item in result.diagnostics if item.id == name]
        joined.append(again[name] if name in again else min(found, key=lambda item: VERDICTS.index(item.verdict)))
    return joined


def _provenance(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Times are summed; what differs between the shards' machines is listed."""
    made = dict(parts[0])
    for name, value in made.items():
        values = [part.get(name) for part in parts]
        if name.endswith("seconds"):
            made[name] = sum(part.get(name, 0.0) for part in parts)
        elif any(other != value for other in values):
            made[name] = "; ".join(_once(str(other) for other in values))
    return made


def _once(names: Iterable[str]) -> list[str]:
    """In order, each once."""
    return list(dict.fromkeys(names))
