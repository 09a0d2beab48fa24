"""alu data: which data sets are there, and what is in one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alu.cli import options
from alu.cli.running import print_table, refuse_file
from alu.errors import UsageError

if TYPE_CHECKING:
    from alu.data import Dataset

MARGIN = 2
TEXT_WIDTH = 130
SMALLEST = 48  # pixels of an image on the sheet of --show; smaller ones are enlarged by a whole factor
PER_CLASS = 8


def data(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="A known name, a folder with one sub-folder per class, or an .npz file."),
    ] = None,
    root: options.Root = None,
    split: Annotated[
        str | None, typer.Option(help="Only this split: train, calibration, validation, test or all.")
    ] = None,
    size: options.Size = None,
    show: Annotated[Path | None, typer.Option(help="Write a PNG file with a few images of each class here.")] = None,
) -> None:
    """Show what a data set holds and where it comes from; without NAME, list the known ones."""
    if name is None:
        if root or split or size or show:
            raise UsageError("alu data needs the NAME of a data set for these options, for example: alu data cifar10.")
        _print_known()
        return
    if show is not None:
        if show.suffix.lower() != ".png":
            raise UsageError(f"--show {show}: the picture is a PNG file; give it a name that ends in .png.")
        refuse_file(show, "a picture", option="--show")
    part = _print_splits(name, root, split, options.parse_size(size))
    _print_facts(name, root, part)
    if show is not None:
        _write_sheet(part, show)
        typer.echo(f"Wrote {show}")


def _print_known() -> None:
    from alu.data.cache import cache_folder
    from alu.data.catalog import KNOWN, present

    rows = [
        (name, known.about, ", ".join(known.splits), "yes" if present(name) else "no") for name, known in KNOWN.items()
    ]
    print_table(("name", "what it is", "splits", "here"), rows)
    typer.echo(f"Cache: {cache_folder()}")


def _print_splits(name: str, root: Path | None, split: str | None, size: int | tuple[int, int] | None) -> Dataset:
    """A table of the splits; gives the last of them."""
    from alu.data import open_dataset
    from alu.data.catalog import KNOWN, known_name
    from alu.data.splits import SPLITS

    known = known_name(name)
    splits = (split,) if split else KNOWN[known].splits if known else (*SPLITS, "all")
    rows = []
    for each in splits:
        part = open_dataset(name, each, root=root, size=size)
        counts = part.labels.bincount(minlength=len(part.classes))
        least, most = int(counts.min()), int(counts.max())
        per_class = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        rows.append((each, f"{len(part):,}", per_class, *_statistics(part)))
    print_table(("split", "images", "per class", "mean", "std"), rows, title=known or name)
    return part


def _print_facts(name: str, root: Path | None, part: Dataset) -> None:
    from alu.data.cache import CachedCopy
    from alu.data.catalog import KNOWN, known_name

    classes = ", ".join(part.classes[:10]) + (", …" if len(part.classes) > 10 else "")
    typer.echo("Image: " + " x ".join(map(str, part.shape)) + " (channels, height, width)")
    typer.echo(f"Classes: {len(part.classes)} ({classes})")
    known = known_name(name)
    source = KNOWN[known].find(root) if known else Path(name)
    if isinstance(source, CachedCopy):
        typer.echo(f"Source: {source.source}\nCache: {source.path}")
    else:
        typer.echo(f"Source: {source}\nCache: none, it is read from the source each time")


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
    """A PNG file with one row per class: its name, then its first images."""
    import torch
    from PIL import Image, ImageDraw

    from alu.data.pictures import as_picture
    from alu.storage import replacing

    _, height, width = part.shape
    factor = max(1, -(-SMALLEST // min(height, width)))
    step_x, step_y = width * factor + MARGIN, height * factor + MARGIN
    present = torch.unique(part.labels).tolist()
    sheet = Image.new("RGB", (TEXT_WIDTH + PER_CLASS * step_x, len(present) * step_y + MARGIN), "white")
    draw = ImageDraw.Draw(sheet)
    for row, label in enumerate(present):
        top = MARGIN + row * step_y
        draw.text((4, top + step_y // 2 - 6), part.classes[label][:20], fill="black")
        first = part.take((part.labels == label).nonzero().flatten()[:PER_CLASS])
        for column, image in enumerate(first.images):
            tile = as_picture(image).convert("RGB").resize((width * factor, height * factor), Image.Resampling.NEAREST)
            sheet.paste(tile, (TEXT_WIDTH + column * step_x, top))
    with replacing(path) as temporary:
        sheet.save(temporary, "PNG")
