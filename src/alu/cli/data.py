"""alu data: which data sets are there, and what is in one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alu.cli.places import refuse_file
from alu.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from alu.data import Dataset


def data(
    name: Annotated[
        str | None,
        typer.Argument(help="A known name, a folder with one sub-folder per class, or an .npz file."),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Where a known data set's archive or folder is.", show_default=False)
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Only this split: train, calibration, validation, test or all.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(help="Scale a folder's pictures to this size: 32, or height x width as 32x48."),
    ] = None,
    show: Annotated[Path | None, typer.Option(help="Write a PNG file with a few images of each class here.")] = None,
) -> None:
    """Say what a data set holds and where it comes from; without NAME, list what is known."""
    if name is None:
        if root or split or size or show:
            raise UsageError("alu data needs the NAME of a data set for these options, for example: alu data cifar10.")
        _print_known()
    else:
        if show is not None and show.suffix.lower() != ".png":
            raise UsageError(f"--show {show}: the picture is a PNG file; give it a name that ends in .png.")
        if show is not None:
            refuse_file(show, "a picture", option="--show")
        _print_one(name, root, split, parse_size(size), show)


def parse_size(text: str | None) -> int | tuple[int, int] | None:
    """Height and width from "32" or "32x48"."""
    if text is None:
        return None
    numbers = text.lower().split("x")
    if len(numbers) > 2 or not all(number.strip().isdecimal() for number in numbers):
        raise UsageError(f"--size {text}: expected one number, such as 32, or height x width, such as 32x48.")
    return int(numbers[0]) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))


def _print_known() -> None:
    from rich.console import Console
    from rich.table import Table

    from alu.data.catalog import KNOWN, present
    from alu.data.stored import cache_folder

    table = Table("name", "what it is", "splits", "here")
    for name, known in KNOWN.items():
        table.add_row(name, known.about, ", ".join(known.splits), "yes" if present(name) else "no")
    console = Console()
    console.print(table)
    console.print(f"Cache: {cache_folder()}", soft_wrap=True, markup=False, highlight=False)


def _print_one(
    name: str, root: Path | None, split: str | None, size: int | tuple[int, int] | None, show: Path | None
) -> None:
    from rich.console import Console
    from rich.table import Table

    from alu.data import open_dataset
    from alu.data.catalog import KNOWN, known_name
    from alu.data.splits import SPLITS

    known = known_name(name)
    own = (*SPLITS, "all")
    splits = (split,) if split else KNOWN[known].splits if known else own
    table = Table("split", "images", "per class", "mean", "std", title=known or name)
    shown: Dataset | None = None
    for each in splits:
        part = open_dataset(name, each, root=root, size=size)
        counts = part.labels.bincount(minlength=len(part.classes))
        least, most = int(counts.min()), int(counts.max())
        per_class = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        mean, std = _statistics(part)
        table.add_row(each, f"{len(part):,}", per_class, mean, std)
        shown = part
    assert shown is not None  # there is at least one split
    console = Console()
    console.print(table)
    _print_facts(console, name, known, root, shown)
    if show is not None:
        _write_sheet(shown, show)
        console.print(f"Wrote {show}", soft_wrap=True, markup=False, highlight=False)


def _print_facts(console: Console, name: str, known: str | None, root: Path | None, part: Dataset) -> None:
    from alu.data.catalog import KNOWN
    from alu.data.stored import Stored

    classes = ", ".join(part.classes[:10]) + (", …" if len(part.classes) > 10 else "")
    found = KNOWN[known].find(root) if known else Path(name)
    lines = ["Image: " + " x ".join(map(str, part.shape)) + " (channels, height, width)"]
    lines += [f"Classes: {len(part.classes)} ({classes})"]
    if isinstance(found, Stored):
        lines += [f"Source: {found.source}", f"Cache: {found.path}"]
    else:
        lines += [f"Source: {found}", "Cache: none, it is read from the source each time"]
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _statistics(part: Dataset) -> tuple[str, str]:
    """Mean and standard deviation of each channel in [0, 1], summed in pieces to spare memory."""
    import torch

    from alu.data import as_images

    total = torch.zeros(part.shape[0], dtype=torch.float64)
    squares = torch.zeros_like(total)
    for piece in torch.split(part.pixels, 1000):
        images = as_images(piece).flatten(2)
        total += images.sum((0, 2), dtype=torch.float64)
        squares += images.square().sum((0, 2), dtype=torch.float64)
    count = len(part) * part.shape[1] * part.shape[2]
    mean = total / count
    std = (squares / count - mean.square()).clamp_min(0).sqrt()
    return " ".join(f"{value:.3f}" for value in mean), " ".join(f"{value:.3f}" for value in std)


def _write_sheet(part: Dataset, path: Path) -> None:
    from alu.data.contact_sheet import contact_sheet
    from alu.storage import replacing

    content = contact_sheet(part)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
