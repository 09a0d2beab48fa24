"""alu predict: answers for picture files, as a table, JSON lines or CSV."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alu.cli.options import Device, checked_device
from alu.errors import AluError, UsageError, nearest

if TYPE_CHECKING:
    from torch import Tensor

    from alu.defense import Defense

FORMATS = ("table", "jsonl", "csv")
COLUMNS = ("file", "label", "class", "accepted", "flagged", "score", "p_value", "error")


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
    batch_size: Annotated[int, typer.Option(help="Pictures worked on at once.", min=1)] = 100,
    device: Device = "cpu",
) -> None:
    """Classify pictures: label, whether it was flagged, and how unusual it is among clean images (p-value).

    A file that cannot be read is reported and the rest go on; the exit code is then 3.
    """
    if format not in FORMATS:
        raise UsageError(f"There is no format {format!r}. {nearest(format, list(FORMATS))}")
    from alu.data import find_pictures
    from alu.defense import Defense
    from alu.saving import call_factory

    where = checked_device(device)
    made = call_factory(classifier) if classifier else None
    ready = Defense.load(defense, made, trust=trust).to(where)
    if not ready.shape:
        raise UsageError(f"{defense} has not been calibrated, so it does not know its images' size. Run alu fit.")
    files = find_pictures(pictures)
    rows: list[dict[str, Any]] = []
    for start in range(0, len(files), batch_size):
        rows += _answers(ready, files[start : start + batch_size], resize, device)
    _write(rows, format, out)
    bad = [row for row in rows if row["error"]]
    for row in bad:
        sys.stderr.write(f"alu: {row['error']}\n")
    if bad:
        sys.stderr.write(f"alu: {len(bad)} of {len(rows)} files could not be read.\n")
        raise typer.Exit(3)


def _answers(defense: Defense, files: list[Path], resize: bool, device: str) -> list[dict[str, Any]]:
    """One row per file, in order."""
    import torch

    from alu.data import as_images

    rows: list[dict[str, Any]] = [{name: None for name in COLUMNS} | {"file": str(file)} for file in files]
    images: list[Tensor] = []
    good: list[dict[str, Any]] = []
    for row, file in zip(rows, files, strict=True):
        try:
            images.append(_picture(file, defense.shape, resize))
            good.append(row)
        except AluError as error:
            row["error"] = str(error)
    if not images:
        return rows
    decision = defense.decide(as_images(torch.stack(images)).to(device))
    for index, row in enumerate(good):
        label = int(decision.label[index])
        score, p_value = float(decision.score[index]), float(decision.p_value[index])
        row["label"] = label
        row["class"] = defense.classes[label] if label < len(defense.classes) else str(label)
        row["accepted"], row["flagged"] = bool(decision.accepted[index]), bool(decision.flagged[index])
        # Without a detector there is neither; NaN is not JSON.
        row["score"] = None if score != score else round(score, 6)  # noqa: PLR0124
        row["p_value"] = None if p_value != p_value else round(p_value, 6)  # noqa: PLR0124
    return rows


def _picture(file: Path, shape: tuple[int, ...], resize: bool) -> Tensor:
    from alu.data import read_picture
    from alu.errors import DataError

    channels, height, width = shape
    picture = read_picture(file, (height, width) if resize else None, channels)
    if tuple(picture.shape) != tuple(shape):
        found = f"{picture.shape[2]} x {picture.shape[1]}"
        raise DataError(f"{file} is {found} pixels; this defence reads {width} x {height}. Add --resize to scale it.")
    return picture


def _write(rows: list[dict[str, Any]], format: str, out: Path | None) -> None:
    if format == "table" and out is None:
        _print_table(rows)
        return
    text = io.StringIO()
    if format == "jsonl":
        text.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    elif format == "csv":
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        raise UsageError("A table is for the screen. With --out choose --format jsonl or --format csv.")
    if out is None:
        sys.stdout.write(text.getvalue())
    else:
        from alu.storage import replacing

        with replacing(out) as temporary:
            temporary.write_text(text.getvalue())


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("file", "answer", "flagged", "p-value", "score")
    for row in rows:
        if row["error"]:
            table.add_row(row["file"], "not read", "", "", "")
            continue
        answer = row["class"] if row["accepted"] else f"no answer ({row['class']}?)"
        p_value = "" if row["p_value"] is None else f"{row['p_value']:.4f}"
        score = "" if row["score"] is None else f"{row['score']:.2f}"
        table.add_row(row["file"], answer, "yes" if row["flagged"] else "no", p_value, score)
    Console().print(table)
