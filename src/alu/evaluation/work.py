"""Work: what an evaluation has done so far, a file per block of images, rewritten whole after every attack."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from alu.errors import StorageError
from alu.evaluation.printed import eps_text
from alu.evaluation.result import AttackRecord, Judged, checksum
from alu.storage import read_json, write_json

SHORT = 100
"""Values of settings are quoted up to so many letters."""
LONG = {
    "images": "the images are not the same",
    "attacks": "the attacks' settings are not the same",
    "subject classifier_sha256": "the classifier's weights are not the same",
    "subject parts_sha256": "the fitted purifier or detector is not the same",
}
"""Settings whose values say nothing to a reader."""


@dataclass
class Block:
    """Images that are attacked together; positions are those of the whole data set."""

    number: int
    clean: Judged | None = None
    attacks: list[AttackRecord] = field(default_factory=list)
    examples: list[dict[str, Any]] = field(default_factory=list)


def differences(known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Every setting that differs, with both values where they are short; what follows from another is left out."""
    # Through JSON and back, as the other side is: tuples are lists there.
    now = json.loads(json.dumps(now))
    changed = {name for name in now if known.get(name) != now[name]}
    if changed & {"suite", "budget", "threat model", "seed", "block size", "subject"}:
        changed.discard("attacks")
    if "n" in changed:
        changed.discard("images")
    found = []
    for name in now:
        if name in changed:
            before, after = known.get(name), now[name]
            if isinstance(before, dict) and isinstance(after, dict) and name != "attacks":
                found += _inside(name, before, after)
            else:
                found.append(_differs(name, before, after))
    return found


def _inside(name: str, known: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The same for settings that belong together."""
    if name == "threat model" and {"eps", "norm"} <= set(known):
        known, now = ({**one, "eps": eps_text(one["eps"], one["norm"])} for one in (known, now))
    keys = [key for key in {**known, **now} if known.get(key) != now.get(key)]
    if name == "subject" and "name" in keys:  # everything else about it follows
        keys = ["name"]
    return [_differs(f"{name} {key}", known.get(key), now.get(key)) for key in keys]


def _differs(name: str, known: Any, now: Any) -> str:
    if name in LONG:
        return LONG[name]
    if name == "shard" and known is not None:
        known, now = (f"{place + 1}/{count}" for place, count in (known, now))
    quoted = known is not None and not any(isinstance(value, dict | list) for value in (known, now))
    if quoted and max(len(str(value)) for value in (known, now)) <= SHORT:
        return f"{name} was {known} and is now {now}"
    return f"{name} is not the same"


class Work:
    """A folder that an interrupted evaluation goes on from; without one, everything stays in memory."""

    def __init__(self, folder: Path | None, facts: dict[str, Any]) -> None:
        self.folder, self.facts = folder, facts
        if folder is not None and (folder / "evaluation.json").exists():
            self._refuse_stranger(folder)
        elif folder is not None:
            write_json(folder / "evaluation.json", facts)

    def _refuse_stranger(self, folder: Path) -> None:
        try:
            known = read_json(folder / "evaluation.json")
        except StorageError as error:
            raise StorageError(f"{error} Delete the folder {folder}; the evaluation then starts again.") from error
        differs = differences(known if isinstance(known, dict) else {}, self.facts)
        if differs:
            raise StorageError(
                f"{folder} holds an interrupted evaluation with other settings: {'; '.join(differs)}. "
                "Run it to its end as it was begun, delete the folder, or choose another output."
            )

    def read(self, number: int) -> Block:
        """What is known of a block; nothing if it has not been begun."""
        path = self._path(number)
        if path is None or not path.exists():
            return Block(number)
        plain = read_json(path)
        if not isinstance(plain, dict) or plain.pop("checksum", None) != checksum(plain):
            raise StorageError(f"{path} was changed after it was written. Delete it; its block is then done again.")
        return Block(
            number,
            Judged(**plain["clean"]),
            [AttackRecord(**{**record, "judged": Judged(**record["judged"])}) for record in plain["attacks"]],
            plain["examples"],
        )

    def write(self, block: Block) -> None:
        """Keep a block as it is now."""
        path = self._path(block.number)
        if path is not None:
            plain = asdict(block)
            plain.pop("number")
            write_json(path, {**plain, "checksum": checksum(plain)})

    def remove(self) -> None:
        """The evaluation is done and its result written."""
        if self.folder is not None:
            with suppress(OSError):
                shutil.rmtree(self.folder)

    def _path(self, number: int) -> Path | None:
        return None if self.folder is None else self.folder / f"block-{number:04d}.json"
