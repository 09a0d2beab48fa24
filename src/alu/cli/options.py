"""Options that several commands share, and what their values stand for."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from alu.cli.running import HELD
from alu.errors import UsageError, check_choice

if TYPE_CHECKING:
    import torch

    from alu.data import Dataset
    from alu.threat import ThreatModel
    from alu.workers import Pool

Seed = Annotated[int, typer.Option(help="Seed of every random draw.")]
Norm = Annotated[str, typer.Option(help="Linf or L2.")]
Eps = Annotated[
    str | None,
    typer.Option(help="How far an image may be changed; by default 8/255, and 0.5 for L2.", show_default=False),
]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps.")]
Images = Annotated[
    str, typer.Option(help="Labelled images: a known name, a folder with one sub-folder per class, or .npz.")
]
Count = Annotated[int | None, typer.Option(help="How many test images to draw; all by default.", min=1)]
Size = Annotated[
    str | None,
    typer.Option(help="Scale a folder's pictures: 32, or height x width (not width x height), such as 32x48."),
]
Root = Annotated[Path | None, typer.Option(help="Where a known data set's files are.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Allow importing code, which runs it, that a saved defence or --attack module:Class names. A "
        "module:function that you name as model or classifier needs no --trust.",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        help="What does the work: process (this one), or ray (several, of this machine or with --address of a cluster; "
        "needs the extra ray). --workers or --address alone mean ray.",
        show_default="process",
    ),
]
Address = Annotated[
    str | None,
    typer.Option(help="Where a Ray cluster runs: auto on one of its machines, or HOST:PORT."),
]
WorkerCount = Annotated[
    int | None,
    typer.Option(help="How many processes work at once, one thread each; as many as there are cores by default."),
]
ENGINES = ("process", "ray")
MOST_CUT = 0.10
"""The part of a picture that scaling may cut away without a warning."""


def checked_device(device: str) -> torch.device:
    """The device of this name, if it is there and computes."""
    from alu.check import find_device

    return find_device(device)


def chosen_workers(engine: str, address: str | None, workers: int | None, device: str = "cpu") -> Pool:
    """The pool that --engine, --address and --workers stand for, already started; it ends with the command."""
    from alu.workers import ThisProcess, Workers

    check_choice("engine", engine or "process", ENGINES)
    asked = engine == "ray" or (not engine and (workers is not None or address is not None))
    if not asked:
        for name, value in (("--workers", workers), ("--address", address)):
            if value is not None:
                raise UsageError(f"{name} {value} is for --engine ray. Leave out --engine, or {name}.")
        return ThisProcess()
    if workers is not None and workers < 1:
        raise UsageError(f"--workers is a number of processes, at least 1; it was given {workers}.")
    pool = Workers(workers, address)
    pool.refuse_device(device)
    return HELD.enter_context(pool).start()


def parse_eps(text: str) -> float:
    """A number from "8/255" or "0.03"."""
    above, slash, below = text.partition("/")
    try:
        value = float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"--eps is a number or a fraction such as 8/255; {text!r} is neither.")
    return value


def parse_threat(norm: str, eps: str | None) -> ThreatModel:
    """The threat model; without eps, the usual one of the norm."""
    from alu.threat import USUAL, ThreatModel

    return ThreatModel(cast(Any, norm), parse_eps(eps) if eps is not None else USUAL.get(norm, 0.0))


def parse_settings(words: list[str], example: str) -> dict[str, Any]:
    """Settings from KEY=VALUE words; a value is a number, a fraction, true, false, a list, or text."""
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {word}: expected KEY=VALUE, such as --set {example}.")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = parse_eps(value) if re.fullmatch(r"[\d.]+/[\d.]+", value) else value
    return settings


def parse_size(text: str | None) -> int | tuple[int, int] | None:
    """Height and width from "32" or "32x48"."""
    if text is None:
        return None
    numbers = text.lower().split("x")
    if len(numbers) > 2 or not all(number.strip().isdecimal() for number in numbers):
        raise UsageError(
            f"--size {text}: expected one number, such as 32, or height x width (not width x height), such as 32x48."
        )
    return int(numbers[0]) if len(numbers) == 1 else (int(numbers[0]), int(numbers[1]))


def open_images(
    name: str, n: int | None, seed: int, root: Path | None, size: str | None, reader: object = None
) -> Dataset:
    """The test images that --data, --n, --seed, --root and --size name, as their reader, a classifier, wants them."""
    from alu.data import open_dataset
    from alu.models import Adapter

    images = open_dataset(name, "test", n, seed, root, **wanted_by(reader, name, size))
    return images.relabelled(reader.classes, reader.__name__) if isinstance(reader, Adapter) else images


def wanted_by(reader: object, data: str, size: str | None) -> dict[str, Any]:
    """Size and channels of a folder's pictures: those of --size or, for a classifier of another library that knows its
    own, those."""
    from alu.data.pictures import find_pictures
    from alu.decoding import opened, upright_size
    from alu.models import Adapter

    shape = parse_size(size)
    if not isinstance(reader, Adapter) or not Path(data).is_dir():
        return {"size": shape}
    if shape is None and reader.size is not None:
        first = next(iter(find_pictures(data)), None)
        if first is not None:
            with opened(first, str(first)) as picture:
                width, height = upright_size(picture)
            if (height, width) != reader.size:
                height, width = reader.size
                sys.stderr.write(f"alu: Pictures are scaled to {width} x {height}, which {reader.__name__} reads.\n")
        shape = reader.size
    return {"size": shape, "channels": reader.channels}


@dataclass
class Crops:
    """How many pictures lose more than a tenth of their area when they are scaled to another shape, and which loses
    most."""

    count: int = 0
    worst: float = 0.0
    file: str = ""

    def add(self, file: Path, size: tuple[int, int], content: bytes | None = None) -> None:
        """Look at one more picture, scaled to cover (height, width); its content where it has been read already."""
        from alu.decoding import opened, upright_size

        with opened(file if content is None else content, str(file)) as picture:
            width, height = upright_size(picture)
        ratio = (width * size[0]) / (height * size[1])
        cut = 1 - min(ratio, 1 / ratio)
        self.join(Crops(int(cut > MOST_CUT), cut, str(file)))

    def join(self, other: Crops) -> None:
        """Count the pictures of another one too."""
        self.count += other.count
        if other.worst > self.worst:
            self.worst, self.file = other.worst, other.file

    def sentence(self, option: str, total: int) -> str:
        """A warning, or nothing if no picture loses much."""
        if not self.count:
            return ""
        return (
            f"{option} cuts more than a tenth of the picture away in {self.count:,} of {total:,} files; most in "
            f"{self.file}, which loses {100 * self.worst:.0f} %."
        )


def crops_of(files: Iterable[Path], size: tuple[int, int]) -> Crops:
    """What scaling to (height, width) cuts away from these files."""
    crops = Crops()
    for file in files:
        crops.add(file, size)
    return crops
