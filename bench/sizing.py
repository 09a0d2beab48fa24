"""What large jobs would cost on 8, 64 and 512 cores or on GPUs, computed from the times of committed results.

Nothing is measured here. A job is a list of pieces (blocks of images, or cells), each of which takes one worker as long
as such pieces took in `results/`; workers take the pieces in their order, and the job takes until the last is done.

Usage: python bench/sizing.py [--write]   (--write puts the table into docs/many-machines.md)
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from alu import models
from alu.storage import read_json

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "many-machines.md"
MARKS = ("<!-- sizing: begin -->", "<!-- sizing: end -->")
CORES = (8, 64, 512)
GPUS = 8
BLOCK = 50
GPU_CORES = 100.0
"""ASSUMED, not measured: one GPU does as much as so many of these cores."""
RESNET50 = 4.1e9
"""Multiplications of a ResNet-50 for one picture of 224 x 224, as its authors and torchvision state."""
BUSY = 1.25
"""Two single-threaded processes do 1.6 times the work of one with two threads (docs/lab-log.md): a second that was
measured with two threads is so many seconds of one core."""


@dataclass(frozen=True)
class Job:
    """A name, where its rate comes from, and the core-seconds of each of its pieces."""

    name: str
    source: str
    pieces: tuple[float, ...]


def makespan(pieces: Sequence[float], workers: int) -> float:
    """Seconds until the last piece is done, if each worker takes the next piece as soon as it is free."""
    free = [0.0] * workers
    for piece in pieces:
        heapq.heapreplace(free, free[0] + piece)
    return max(free)


def core_seconds(seconds: float, threads: int) -> float:
    """Seconds of one core, from seconds with one or two threads."""
    return seconds * (BUSY if threads > 1 else 1.0)


def cells(experiment: str) -> dict[str, tuple[float, int]]:
    """Core-seconds and images of every measured cell."""
    plain = read_json(ROOT / "results" / f"{experiment}.json")
    threads = plain["provenance"]["threads"]
    return {
        key: (core_seconds(cell["seconds"], threads), cell["found"]["n"])
        for key, cell in plain["cells"].items()
        if "found" in cell
    }


def evaluation(name: str, source: str, rate: tuple[float, int], images: int = 10_000) -> Job:
    """An evaluation of so many images, block by block, at the rate of a smaller one: seconds and images."""
    seconds, n = rate
    return Job(f"{images:,} images, {name}", f"{source}, n = {n}", (seconds / n * BLOCK,) * -(-images // BLOCK))


def bare_seconds() -> float:
    """Core-seconds of one forward pass of `cifar10-standard` for one picture, in batches of 64."""
    plain = read_json(ROOT / "bench" / "results" / "latency.json")
    row = next(row for row in plain["batches"] if row["batch"] == 64)
    return core_seconds(row["classifier_seconds_per_image"], plain["measured with"]["threads"])


def multiplications() -> float:
    """Of one forward pass of `cifar10-standard` for one picture."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        models.load("cifar10-standard")(torch.zeros(1, 3, 32, 32))
    return counter.get_total_flops() / 2


def jobs() -> list[Job]:
    """Everything that the page shows."""
    whole, table2, check = cells("whole-suite"), cells("table2"), cells("check")
    tables = [piece for name in ("table1", "table2", "table3") for piece, _ in cells(name).values()]
    parts = [found for key, found in check.items() if "/check/" in key]
    checked = sum(seconds for seconds, _ in parts), sum(n for _, n in parts)
    larger = RESNET50 / multiplications()
    latency = read_json(ROOT / "bench" / "results" / "latency.json")["batches"][1]["ratio_to_classifier"]
    answering = bare_seconds() * larger * latency["VAE + ALU, N=20"]
    quick, n = whole["cifar10-vae, input/quick"]
    validation = "of ImageNet's validation (extrapolated)"
    return [
        evaluation("`cifar10-standard+vae`, standard", "whole-suite", whole["cifar10-vae, input/standard"]),
        evaluation("`cifar10-at+vae`, quick", "table2", table2["cifar10-at/adaptive, input"]),
        evaluation("`cifar10-at+check`, the attacks of `reproduce check`", "check", checked),
        Job("tables 1, 2 and 3 as far as they are measured", f"their {len(tables)} cells", tuple(tables)),
        Job(f"50,000 images, `alu predict`, 20 latent steps, {validation}", "latency", (100 * answering,) * 500),
        evaluation(f"`alu evaluate`, quick, {validation}", "whole-suite", (quick * larger, n), 50_000),
    ]


def words(seconds: float) -> str:
    """Minutes, hours or days, with two digits."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"


def table() -> str:
    """The table of docs/many-machines.md."""
    titles = ("job", "rate from", "core-hours", *(f"{count} cores" for count in CORES), f"{GPUS} GPUs (assumed)")
    lines = [titles, ("---",) * len(titles)]
    for job in jobs():
        times = [words(makespan(job.pieces, count)) for count in CORES]
        on_gpus = makespan([piece / GPU_CORES for piece in job.pieces], GPUS)
        lines.append((job.name, job.source, f"{sum(job.pieces) / 3600:,.3g}", *times, words(on_gpus)))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/many-machines.md")
    options = parser.parse_args()
    print(table())
    if options.write:
        text = PAGE.read_text()
        before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
