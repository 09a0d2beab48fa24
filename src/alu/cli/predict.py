"""alu predict: answers for picture files, as a table, JSON lines or CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from alu.cli.options import Device, checked_device
from alu.cli.places import refuse_file
from alu.cli.stages import stages
from alu.errors import AluError, DataError, UsageError, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from alu.defense import Defense

FORMATS = ("table", "jsonl", "csv")
COLUMNS = ("file", "label", "class", "accepted", "flagged", "score", "p_value", "error")
Row = dict[str, Any]


def predict(
    defense: Annotated[Path, typer.Argument(help="A defence saved by alu fit.")],
    pictures: Annotated[list[Path], typer.Argument(help="Picture files, or folders of them.")],
    format: Annotated[str, typer.Option(help="table, jsonl or csv.")] = "table",
    out: Annotated[Path | None, typer.Option(help="Write here instead of to standard output.")] = None,
    classifier: Annotated[
        str | None, typer.Option(help="module:function that returns your classifier, if it is not the recorded one.")
    ] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Import the classifier that the defence names.")] = False,
    resize: Annotated[bool, typer.Option("--resize", help="Scale pictures of another size to the defence's.")] = False,
    batch_size: Annotated[int, typer.Option(help="Pictures worked on at once, at most.", min=1)] = 100,
    device: Device = "cpu",
) -> None:
    """Classify pictures: label, whether it was flagged, and how unusual it is among clean images (p-value).

    A file that cannot be read is reported and the rest go on; the exit code is then 3.
    """
    if format not in FORMATS:
        raise UsageError(f"There is no format {format!r}. {nearest(format, list(FORMATS))}")
    if format == "table" and out is not None:
        raise UsageError("A table is for the screen. With --out choose --format jsonl or --format csv.")
    from alu.training.memory import at_once

    rows = _found(pictures)
    if out is not None:
        tables = (".csv", ".jsonl", ".json", ".txt", ".tsv")
        refuse_file(out, "a table", (Path(row["file"]) for row in rows), lambda path: path.suffix in tables)
    ready = _loaded(defense, classifier, trust, device)
    bad: list[str] = []
    portion = at_once(ready.shape, batch_size)
    # A bar only where it does not run into the answers, and not for a moment's work.
    shown = len(rows) > portion and (format == "table" or out is not None or not sys.stdout.isatty())
    with _writer(format, out) as write, stages(shown) as watch:
        for start in range(0, len(rows), portion):
            some = rows[start : start + portion]
            _answer(ready, some, resize, device)
            write(some)
            bad += [row["error"] for row in some if row["error"]]
            watch("Answering", min(start + portion, len(rows)), len(rows))
    for sentence in bad:
        sys.stderr.write(f"alu: {sentence}\n")
    if bad:
        sys.stderr.write(f"alu: {len(bad)} of {len(rows)} files could not be read.\n")
        raise typer.Exit(3)


def _found(pictures: list[Path]) -> list[Row]:
    """A row for each file, and for each path that leads to none."""
    from alu.data import find_pictures

    rows: dict[str, Row] = {}
    for path in pictures:
        try:
            files, error = find_pictures(path), None
        except DataError as missing:
            files, error = [path], str(missing)
        for file in files:
            rows.setdefault(str(file), {name: None for name in COLUMNS} | {"file": str(file), "error": error})
    if not rows:
        where = ", ".join(map(str, pictures))
        raise DataError(f"There is no picture in {where}. Give picture files, or folders that hold some.")
    return list(rows.values())


def _loaded(path: Path, classifier: str | None, trust: bool, device: str) -> Defense:
    from alu.defense import Defense
    from alu.imports import call_factory

    where = checked_device(device)
    ready = Defense.load(path, call_factory(classifier) if classifier else None, trust=trust).to(where)
    if not ready.shape:
        raise UsageError(f"{path} has not been calibrated, so it does not know its images' size. Run alu fit.")
    return ready


def _answer(defense: Defense, rows: list[Row], resize: bool, device: str) -> None:
    """Fill the rows in: an answer, or why there is none."""
    import torch

    from alu.data import as_images

    images: list[Tensor] = []
    good: list[Row] = []
    for row in rows:
        if row["error"]:
            continue
        try:
            images.append(_picture(Path(row["file"]), defense.shape, resize))
            good.append(row)
        except AluError as error:
            row["error"] = str(error)
    if not images:
        return
    decision = defense.decide(as_images(torch.stack(images)).to(device), len(images))
    for index, row in enumerate(good):
        label = int(decision.label[index])
        score, p_value = float(decision.score[index]), float(decision.p_value[index])
        row["label"] = label
        row["class"] = defense.classes[label] if label < len(defense.classes) else str(label)
        row["accepted"], row["flagged"] = bool(decision.accepted[index]), bool(decision.flagged[index])
        # Without a detector there is neither; NaN is not JSON.
        row["score"] = None if score != score else round(score, 6)  # noqa: PLR0124
        row["p_value"] = None if p_value != p_value else round(p_value, 6)  # noqa: PLR0124


def _picture(file: Path, shape: tuple[int, ...], resize: bool) -> Tensor:
    from alu.data import read_picture

    channels, height, width = shape
    picture = read_picture(file, (height, width) if resize else None, channels)
    if tuple(picture.shape) != tuple(shape):
        found = f"{picture.shape[2]} x {picture.shape[1]}"
        raise DataError(f"{file} is {found} pixels; this defence reads {width} x {height}. Add --resize to scale it.")
    return picture


class _Writer:
    """Writes rows as they come; those of a table are kept, since its columns are as wide as their widest entry."""

    def __init__(self, format: str, stream: TextIO) -> None:
        self.format, self.stream, self.kept = format, stream, list[Row]()
        self.csv = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        if format == "csv":
            self.csv.writeheader()

    def __call__(self, rows: Iterable[Row]) -> None:
        if self.format == "csv":
            self.csv.writerows(rows)
        elif self.format == "jsonl":
            self.stream.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)
        else:
            self.kept += rows
        self.stream.flush()


@contextmanager
def _writer(format: str, out: Path | None) -> Iterator[_Writer]:
    """A writer to standard output, or to a file that appears when all is done."""
    if out is not None:
        from alu.storage import replacing

        with replacing(out) as temporary, temporary.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            yield _Writer(format, stream)
        return
    if hasattr(sys.stdout, "reconfigure"):
        # A file's name may hold bytes that are no text.
        sys.stdout.reconfigure(errors="backslashreplace")
    writer = _Writer(format, sys.stdout)
    yield writer
    if format == "table":
        _print_table(writer.kept)


def _print_table(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("file", overflow="fold")
    for title in ("answer", "flagged", "p-value", "score"):
        table.add_column(title)
    for row in rows:
        # Text, not str: square brackets in a name are no markup.
        if row["error"]:
            table.add_row(Text(row["file"]), Text("not read"), "", "", "")
            continue
        answer = row["class"] if row["accepted"] else f"no answer ({row['class']}?)"
        p_value = "" if row["p_value"] is None else f"{row['p_value']:.4f}"
        score = "" if row["score"] is None else f"{row['score']:.2f}"
        table.add_row(Text(row["file"]), Text(answer), "yes" if row["flagged"] else "no", p_value, score)
    Console().print(table)
