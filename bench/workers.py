"""An evaluation by several single-threaded processes beside the same by one process with as many threads, in turn.

Run it on a machine that does nothing else. Starting Ray is measured by itself: it comes once for each command.

Usage: python bench/workers.py [--rounds 3] [--n 100] [--workers 2] [--name demo] [--out bench/results/workers.json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import alu
from alu import data
from alu.provenance import provenance
from alu.storage import write_json

WANTED = 1.5
"""So many times as fast as one process two workers should be on two cores."""


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(name: str, n: int, rounds: int, count: int, block: int = 50) -> dict[str, Any]:
    """Seconds of both in each round, and their ratio: the machine's speed drifts, the ratio much less."""
    subject, test = alu.load(name), data.sample("test").draw(n)
    settings: dict[str, Any] = {"budget": "quick", "block_size": block, "name": name}
    torch.set_num_threads(count)
    rows = []
    with alu.Workers(count) as workers:
        started = seconds(workers.start)
        # The first work in each process also imports torch and gets the networks.
        first = seconds(lambda: alu.evaluate(subject, test, suite="oblivious", workers=workers, **settings))
        for _ in range(rounds):
            one = seconds(lambda: alu.evaluate(subject, test, **settings))
            several = seconds(lambda: alu.evaluate(subject, test, workers=workers, **settings))
            rows.append({"one process": one, "workers": several, "ratio": one / several})
    return {
        "evaluated": name,
        "images": n,
        "block": block,
        "workers": count,
        "threads of the one process": count,
        "seconds to start Ray": round(started, 2),
        "seconds of a first, short evaluation": round(first, 2),
        "rounds": rows,
        "times as fast": round(statistics.median(row["ratio"] for row in rows), 3),
        "wanted": WANTED,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--name", default="demo")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "workers.json")
    options = parser.parse_args()
    result = {
        "what": "alu.evaluate by workers with one thread each, as a ratio to one process; interleaved, medians",
        **measure(options.name, options.n, options.rounds, options.workers),
        "measured with": provenance(0),
    }
    write_json(options.out, result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
