"""What picture files cost beside images that are in memory already, in one run.

Usage: python bench/predict.py [--files 5000] [--rounds 3] [--out bench/results/predict.json]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from alu import Defense, data
from alu.cli.answers import COLUMNS, Row, Tally
from alu.cli.predict import _answer_all
from alu.data.pictures import as_picture
from alu.loading import load_bundled_defense
from alu.provenance import provenance
from alu.storage import write_json
from alu.workers import ThisProcess

BATCH = 100
DEFENSE = "demo-pca"
"""Cheap, so that decoding is a large part: five times as fast as the VAE with 20 steps."""


@contextlib.contextmanager
def files(count: int) -> Iterator[list[Path]]:
    """PNG files of test images, some of them more than once."""
    images = data.sample("test").images
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number:05d}.png" for number in range(count)]
        for number, path in enumerate(paths):
            as_picture(images[number % len(images)]).save(path)
        yield paths


def from_files(defense: Defense, paths: list[Path]) -> list[Row]:
    """The rows that alu predict fills in."""
    rows: list[Row] = [{name: None for name in COLUMNS} | {"file": str(path)} for path in paths]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        _answer_all(ThisProcess(), defense, rows, Tally(), "jsonl", None, False, BATCH)
    return rows


def from_memory(defense: Defense, images: torch.Tensor) -> None:
    """The decisions alone."""
    for part in images.split(BATCH):
        defense.decide(part, BATCH)


def measure(count: int, rounds: int) -> dict[str, Any]:
    """Portions of both in turn, so that a slow minute of the machine falls on both alike."""
    defense = load_bundled_defense(DEFENSE)
    images = data.sample("test").images
    part = min(count, 500)
    ratios, seconds = [], {"memory": 0.0, "files": 0.0}
    with files(count) as paths:
        from_files(defense, paths[:BATCH])
        for _ in range(rounds):
            for start in range(0, count, part):
                some = paths[start : start + part]
                held = images[[number % len(images) for number in range(start, start + len(some))]]
                times = []
                for work in (lambda held=held: from_memory(defense, held), lambda some=some: from_files(defense, some)):
                    began = time.perf_counter()
                    work()
                    times.append(time.perf_counter() - began)
                ratios.append(times[0] / times[1])
                seconds = {name: seconds[name] + spent for name, spent in zip(seconds, times, strict=True)}
    return {
        "files": count,
        "seconds": {name: round(spent / rounds, 2) for name, spent in seconds.items()},
        "rate_to_memory": round(statistics.median(ratios), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "predict.json")
    options = parser.parse_args()
    result = {
        "what": "answers a second from PNG files of 32 x 32 pixels over those from memory; interleaved, medians",
        "defence": DEFENSE,
        "rounds": options.rounds,
        **measure(options.files, options.rounds),
        "measured with": provenance(0),
    }
    write_json(options.out, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
