"""The rows of alu predict: as text, counted, and in a file that an interrupted run goes on from."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from alu.cli.options import Crops
from alu.errors import StorageError
from alu.storage import explained, read_json, write_json

FORMATS = ("table", "jsonl", "csv")
COLUMNS = ("file", "label", "class", "accepted", "flagged", "state", "score", "p_value", "error")
Row = dict[str, Any]


def is_answers(path: Path) -> bool:
    """Whether a file is one that alu predict wrote, or empty."""
    starts = (",".join(COLUMNS[:3]).encode(), b'{"file": ')  # earlier versions had fewer columns
    with explained(path, "read"), path.open("rb") as file:
        first = file.read(max(map(len, starts)))
    return not first or first.startswith(starts)


def header(format: str) -> str:
    """What stands above the rows."""
    return ",".join(COLUMNS) + "\n" if format == "csv" else ""


def text_of(rows: Iterable[Row], format: str) -> str:
    """Rows as lines of JSON or CSV."""
    if format == "jsonl":
        return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    text = io.StringIO()
    csv.DictWriter(text, COLUMNS, lineterminator="\n").writerows(rows)
    return text.getvalue()


@dataclass
class Tally:
    """What came of the files so far."""

    files: int = 0
    flagged: int = 0
    corrupted: int = 0
    unanswered: int = 0
    errors: list[str] = field(default_factory=list)
    crops: Crops = field(default_factory=Crops)

    def add(self, rows: Iterable[Row]) -> None:
        """Count rows that are filled in."""
        for row in rows:
            self.files += 1
            if row["error"]:
                self.errors.append(row["error"])
            else:
                self.flagged += row["flagged"]
                self.corrupted += row["state"] == "corrupted"
                self.unanswered += not row["accepted"]

    def __str__(self) -> str:
        files = f"{self.files:,} file" + ("" if self.files == 1 else "s")
        counts = f"{self.flagged:,} flagged, {self.corrupted:,} corrupted, {self.unanswered:,} not answered"
        return f"{files}: {counts}, {len(self.errors):,} not read."


class AnswerFile:
    """A file that appears under its own name when all rows are there; until then it is NAME.partial, and
    NAME.partial.json says what it belongs to and how far it is."""

    def __init__(self, out: Path, format: str, facts: dict[str, Any]) -> None:
        self.out, self.format, self.facts = out, format, {"format": format, **facts}
        self.partial, self.notes = (out.with_name(out.name + ending) for ending in (".partial", ".partial.json"))
        self.rows = self.size = 0

    def begin(self) -> Tally:
        """What an earlier run has done; nothing if there was none."""
        with explained(self.partial):
            if self.partial.exists():
                return self._continue()
            self._note(Tally())  # before the file: one without notes would belong to nobody
            self.partial.write_bytes(b"")
        return Tally()

    def _continue(self) -> Tally:
        try:
            known = read_json(self.notes)
            facts, tally, self.size = known["facts"], known["tally"], int(known["bytes"])
            done = Tally(**{**tally, "crops": Crops(**tally["crops"])})
        except (StorageError, KeyError, TypeError, ValueError) as error:
            raise StorageError(
                f"{self.partial} is there already, and {self.notes} does not say what it belongs to. Delete it, or "
                "choose another --out."
            ) from error
        for name, value in self.facts.items():
            if facts.get(name) != value:
                raise StorageError(
                    f"{self.partial} holds the first {done.files:,} answers of an interrupted call with another "
                    f"{name}. Repeat that call to resume, delete the file to start again, or choose another --out."
                )
        self.rows = done.files
        os.truncate(self.partial, self.size)  # what came after the last note is done again
        return done

    def write(self, rows: Iterable[Row], tally: Tally) -> None:
        """Add rows; `tally` is what came of all files so far."""
        text = ("" if self.size else header(self.format)) + text_of(rows, self.format)
        content = text.encode("utf-8", "backslashreplace")  # a file's name may hold bytes that are no text
        with explained(self.partial), self.partial.open("ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self._note(tally, len(content))

    def _note(self, tally: Tally, more: int = 0) -> None:
        write_json(self.notes, {"facts": self.facts, "tally": asdict(tally), "bytes": self.size + more})
        self.rows, self.size = tally.files, self.size + more

    def finish(self) -> None:
        """All rows are there."""
        with explained(self.out):
            os.replace(self.partial, self.out)
            self.notes.unlink(missing_ok=True)

    def stop(self, total: int) -> str:
        """After an interruption or an error: what was kept, as a sentence. Of no rows nothing is kept."""
        if not self.rows:
            self.partial.unlink(missing_ok=True)
            self.notes.unlink(missing_ok=True)
            return "No partial files were left."
        with explained(self.partial):
            os.truncate(self.partial, self.size)
        return (
            f"The answers for {self.rows:,} of {total:,} files are in {self.partial}: run the same command again to "
            "resume."
        )
