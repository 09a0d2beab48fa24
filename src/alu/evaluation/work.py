"""Work: what an evaluation has done so far, a file per block of images, rewritten whole after every attack."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from alu.errors import StorageError
from alu.evaluation.result import AttackRecord, Judged, checksum
from alu.storage import read_json, write_json


@dataclass
class Block:
    """Images that are attacked together; positions are those of the whole data set."""

    number: int
    clean: Judged | None = None
    attacks: list[AttackRecord] = field(default_factory=list)
    examples: list[dict[str, Any]] = field(default_factory=list)


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
        differs = [key for key in self.facts if not isinstance(known, dict) or known.get(key) != self.facts[key]]
        if differs:
            raise StorageError(
                f"{folder} holds an interrupted evaluation whose {differs[0]} differs from this one's. "
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
