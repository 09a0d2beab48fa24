"""alu predict: answers for picture files, as a table, JSON lines or CSV."""

from __future__ import annotations

import hashlib
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alu.cli.answers import COLUMNS, FORMATS, AnswerFile, Row, Tally, header, is_answers, text_of
from alu.cli.options import Address, Device, Engine, Trust, WorkerCount, checked_device, chosen_workers
from alu.cli.reading import Portion, read_ahead
from alu.cli.running import InterruptedCommandError, hold, print_table, refuse_file, stages
from alu.errors import AluError, DataError, UsageError, check_choice

if TYPE_CHECKING:
    from torch import Tensor

    from alu.cli.options import Crops
    from alu.defense import Defense
    from alu.exported import Exported
    from alu.workers import Desk, Pool


def predict(
    defense: Annotated[Path, typer.Argument(help="A defence saved by alu fit, or written by alu export.")],
    pictures: Annotated[list[Path], typer.Argument(help="Picture files, or folders of them.")],
    format: Annotated[str, typer.Option(help="table, jsonl or csv.")] = "table",
    out: Annotated[Path | None, typer.Option(help="Write the answers to this file and not to the screen.")] = None,
    classifier: Annotated[
        str | None, typer.Option(help="Your classifier, as in alu fit, if it is not at the recorded place.")
    ] = None,
    trust: Trust = False,
    resize: Annotated[
        bool, typer.Option("--resize", help="Scale pictures to the size that the defence reads.")
    ] = False,
    batch_size: Annotated[int, typer.Option(help="At most this many pictures at once.", min=1)] = 100,
    device: Device = "cpu",
    engine: Engine = "",
    address: Address = None,
    workers: WorkerCount = None,
) -> None:
    """For each picture: label, flag, state (clean, suspicious, attacked or corrupted), and p-value (how unusual it is
    among clean images).

    A file that cannot be read is reported and skipped; the exit code is then 3. With --out, an interrupted run keeps
    its answers in OUT.partial; run the same command again to resume.
    """
    check_choice("format", format, FORMATS)
    if format == "table" and out is not None:
        raise UsageError("A table is for the screen. With --out choose --format jsonl or --format csv.")
    rows = _rows_for(pictures)
    if out is not None:
        refuse_file(out, "a table of alu predict", (Path(row["file"]) for row in rows), is_answers)
        hold(out)
    pool = chosen_workers(engine, address, workers, device)
    ready = _loaded(defense, classifier, trust, device)
    file = None if out is None else AnswerFile(out, format, _facts(defense, classifier, resize, rows))
    tally = Tally() if file is None else file.begin()
    if tally.files:
        sys.stderr.write(f"alu: {tally.files:,} of {len(rows):,} answers were there already.\n")
    try:
        _answer_all(pool, ready, rows, tally, format, file, resize, batch_size)
    except KeyboardInterrupt as error:
        kept = file.stop(len(rows)) if file is not None else "No partial files were left."
        raise InterruptedCommandError(f"Interrupted. {kept}") from error
    except AluError as error:
        if file is not None:
            error.args = (f"{error} {file.stop(len(rows))}",)
        raise
    _report(tally, format)
    if tally.errors:
        raise typer.Exit(3)


def _answer_all(
    pool: Pool, defense: Defense | Exported, rows: list[Row], tally: Tally, format: str, file: AnswerFile | None,
    resize: bool, batch_size: int,
) -> None:  # fmt: skip
    """Answer the rows that are not in the tally yet, a portion at a time."""
    from alu.progress import at_once
    from alu.training.interrupts import deferred

    portion = at_once(defense.shape, batch_size)
    # A bar only where it does not run into the answers, and not for a moment's work.
    shown = len(rows) > portion and (format == "table" or file is not None or not sys.stdout.isatty())
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name may hold bytes that are no text
    if file is None and format != "table":
        sys.stdout.write(header(format))
    portions, start = read_ahead(rows[tally.files :], portion, defense.shape, resize), tally.files
    with stages(shown) as watch, closing(portions):
        for _, (some, crops) in pool.run(answered, defense, portions, in_order=True):
            rows[start : start + len(some)] = some
            start += len(some)
            tally.add(some)
            tally.crops.join(crops)
            if file is not None:
                with deferred() as interruption:
                    file.write(some, tally)
                if interruption.requested:
                    raise KeyboardInterrupt
            elif format != "table":
                sys.stdout.write(text_of(some, format))
                sys.stdout.flush()
            watch("Answering", tally.files, len(rows))
    if file is not None:
        file.finish()
    elif format == "table":
        _print_table(rows)


def _report(tally: Tally, format: str) -> None:
    """What could not be read, what was cut away, and one line about all files."""
    for sentence in tally.errors:
        sys.stderr.write(f"alu: {sentence}\n")
    if cut := tally.crops.sentence("--resize", tally.files):
        sys.stderr.write(f"alu: warning: {cut}\n")
    if format == "table":
        sys.stdout.write(f"{tally}\n")
    else:
        sys.stderr.write(f"alu: {tally}\n")


def _facts(defense: Path, classifier: str | None, resize: bool, rows: list[Row]) -> dict[str, Any]:
    """What must be equal for the answers of an interrupted run to be used."""
    from alu.storage import sha256

    files = hashlib.sha256()
    for row in rows:
        path = Path(row["file"])
        seen = (path.stat().st_size, path.stat().st_mtime_ns) if path.is_file() else ()
        files.update(f"{row['file']!r} {seen}\n".encode())
    known = ("defense.json", "weights.safetensors", "exported.json", "calibration.json")
    parts = [sha256(defense / name) for name in known if (defense / name).is_file()]
    same = {"defence": parts, "classifier": classifier, "--resize": resize, "list of pictures": files.hexdigest()}
    return {**same, "set of columns": list(COLUMNS)}


def _rows_for(pictures: list[Path]) -> list[Row]:
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


def _loaded(path: Path, classifier: str | None, trust: bool, device: str) -> Defense | Exported:
    from alu import exported
    from alu.defense import Defense
    from alu.loading import load_classifier

    where = checked_device(device)
    if exported.is_export(path):
        if classifier is not None or where.type != "cpu":
            raise UsageError(f"{path} is an export: its classifier is in it, and it runs on the CPU.")
        return exported.load(path)
    ready = Defense.load(path, load_classifier(classifier) if classifier else None, trust=trust).to(where)
    if not ready.shape:
        raise UsageError(f"{path} has not been calibrated, so it does not know its images' size. Run alu fit.")
    return ready


def answered(defense: Defense | Exported, read: Portion, desk: Desk) -> tuple[list[Row], Crops]:
    """The rows with answers to those whose pictures could be read, wherever this runs; and what scaling cut away."""
    import torch

    from alu.data import as_images

    if read.images:
        decision = _decided(defense, as_images(torch.stack(read.images)))
        for index, row in enumerate(read.good):
            _fill(row, decision, index, defense.classes)
    return read.rows, read.crops


def _fill(row: Row, decision: dict[str, Any], index: int, classes: tuple[str, ...]) -> None:
    for name in ("label", "accepted", "flagged", "state", "score", "p_value"):
        value = decision[name][index]
        row[name] = round(value, 6) if isinstance(value, float) else value
    label = row["label"]
    row["class"] = classes[label] if label < len(classes) else str(label)


def _decided(defense: Defense | Exported, images: Tensor) -> dict[str, Any]:
    from alu.exported import Exported

    if isinstance(defense, Exported):
        return defense.decide(images.numpy(), len(images)).to_dict()
    device = next(defense.parameters()).device
    return defense.decide(images.to(device), len(images)).to_dict()


def _print_table(rows: list[Row]) -> None:
    lines = []
    for row in rows:
        if row["error"]:
            lines.append((row["file"], "not read", "", "", "", ""))
            continue
        answer = row["class"] if row["accepted"] else f"no answer ({row['class']}?)"
        p_value = "" if row["p_value"] is None else f"{row['p_value']:.4f}"
        score = "" if row["score"] is None else f"{row['score']:.2f}"
        lines.append((row["file"], answer, row["state"], "yes" if row["flagged"] else "no", p_value, score))
    print_table(("file", "answer", "state", "flagged", "p-value", "score"), lines)
