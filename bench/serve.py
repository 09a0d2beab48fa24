"""What the service adds: its rate, latency, behaviour under overload and memory, beside the same work in one process.

Usage: python bench/serve.py [--rounds 3] [--seconds 10] [--requests 50000] [--out bench/results/serve.json] [--write]

Needs `hey` (Debian's package hey) and a machine that does nothing else. One picture is sent again and again, as
image/png. --write puts the table into docs/deploy.md.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from alu import data
from alu.data.pictures import as_picture
from alu.decoding import fitted
from alu.provenance import provenance
from alu.serve.defended import load_engine
from alu.serve.engine import Engine
from alu.storage import write_json

NAMES = ("demo@0", "demo@5")
BATCH, CONNECTIONS, OVERLOAD = 64, 32, 4
CROWD = 512
"""Connections that make the overload."""
PAGE = Path(__file__).parents[1] / "docs" / "deploy.md"
MARKS = ("<!-- sizing: begin -->", "<!-- sizing: end -->")


@dataclass(frozen=True)
class Load:
    """What came of requests: seconds and status of each, and how many were sent."""

    seconds: list[float]
    status: list[int]
    wall: float

    def rate(self, status: int = 200) -> float:
        return self.status.count(status) / self.wall


@contextmanager
def service(name: str, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of `alu serve`, once it is ready."""
    command = [sys.executable, "-m", "alu", "serve", name, "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        said = ""
        for line in process.stderr:
            said += line
            if found := re.search(r"listening on (http://\S+)", line):
                yield found[1], process
                break
        else:
            raise SystemExit(said)
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def hey(address: str, body: Path, *options: object) -> Load:
    """Run `hey`; every request that was answered is a row of its table."""
    words = ["hey", "-o", "csv", "-m", "POST", "-T", "image/png", "-D", body, *options, f"{address}/v1/decide"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    ends = [float(row["offset"]) + float(row["response-time"]) for row in rows]
    starts = [float(row["offset"]) for row in rows]
    return Load(
        [float(row["response-time"]) for row in rows],
        [int(row["status-code"]) for row in rows],
        max(ends) - min(starts),
    )


def in_process(engine: Engine, content: bytes, size: int, seconds: float) -> list[float]:
    """Seconds of batches of this size, decoding included."""
    taken = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 3:
        start = time.perf_counter()
        engine.decide(np.stack([fitted(content, "picture", engine.shape, False, "") for _ in range(size)]))
        taken.append(time.perf_counter() - start)
    return taken


def resident(address: str) -> float:
    with urllib.request.urlopen(f"{address}/metrics") as reply:
        found = re.search(r"^process_resident_memory_bytes (\S+)", reply.read().decode(), re.M)
    assert found
    return float(found[1])


def overloaded(address: str, body: Path, peak: float, seconds: float) -> dict[str, object]:
    """Four times as many requests as can be answered."""
    each = max(1, round(OVERLOAD * peak * seconds / CROWD))
    load = hey(address, body, "-n", each * CROWD, "-c", CROWD, "-q", OVERLOAD * peak / CROWD, "-t", 30)
    return {
        "sent": each * CROWD,
        "sent_per_second": len(load.status) / load.wall,
        "answered_200": load.status.count(200),
        "answered_503": load.status.count(503),
        "lost": each * CROWD - len(load.status),
        "slowest_seconds": max(load.seconds),
        "rate_to_peak": load.rate() / peak,
    }


def measure(name: str, rounds: int, seconds: float, requests: int, first: int = 1_000) -> dict[str, object]:
    """Rounds that alternate between both, so that a slow minute of the machine falls on both alike."""
    engine = load_engine(name)
    content_file = io.BytesIO()
    as_picture(data.sample("test").images[0]).save(content_file, "PNG")
    content = content_file.getvalue()
    found: dict[str, list[float]] = {key: [] for key in ("rate here", "rate", "lone here", "lone")}
    with TemporaryDirectory() as folder, service(name) as (address, _):
        body = Path(folder) / "picture.png"
        body.write_bytes(content)
        hey(address, body, "-n", CONNECTIONS, "-c", CONNECTIONS)
        for _ in range(rounds):
            found["rate here"].append(BATCH / statistics.median(in_process(engine, content, BATCH, seconds)))
            found["rate"].append(hey(address, body, "-z", f"{seconds:g}s", "-c", CONNECTIONS).rate())
            found["lone here"].append(statistics.median(in_process(engine, content, 1, seconds / 3)))
            found["lone"].append(statistics.median(hey(address, body, "-z", f"{seconds / 3:g}s", "-c", 1).seconds))
        peak = statistics.median(found["rate"])
        over = overloaded(address, body, peak, seconds)
    with TemporaryDirectory() as folder, service(name) as (address, _):
        body = Path(folder) / "picture.png"
        body.write_bytes(content)
        memory = []
        for count in (first, requests - first):
            hey(address, body, "-n", count - count % CONNECTIONS, "-c", CONNECTIONS)
            memory.append(resident(address))
    middle = {key: statistics.median(values) for key, values in found.items()}
    return {
        "name": name,
        "pictures_per_second_in_process": middle["rate here"],
        "pictures_per_second": middle["rate"],
        "rate_ratio": statistics.median(
            one / other for one, other in zip(found["rate"], found["rate here"], strict=True)
        ),
        "lone_seconds_in_process": middle["lone here"],
        "lone_seconds": middle["lone"],
        "lone_ratio": statistics.median(
            one / other for one, other in zip(found["lone"], found["lone here"], strict=True)
        ),
        "overload": over,
        "memory_bytes": {str(first): memory[0], str(requests): memory[1]},
        "memory_ratio": memory[1] / memory[0],
    }


TITLES = (
    "defence", "pictures a second, 32 connections", "of the rate in one process", "lone request",
    "of that in one process", "4x overload: 200s of peak", "slowest answer", "requests lost", "memory",
)  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """The table of docs/deploy.md."""
    lines = [TITLES, ("---",) * len(TITLES)]
    for row in result["rows"]:
        over, memory = row["overload"], max(row["memory_bytes"].values()) / 2**20
        lines.append(
            (
                f"`{row['name']}`", f"{row['pictures_per_second']:.0f}", f"{row['rate_ratio']:.2f}",
                f"{1000 * row['lone_seconds']:.1f} ms", f"{row['lone_ratio']:.2f}", f"{over['rate_to_peak']:.2f}",
                f"{over['slowest_seconds']:.2f} s", f"{over['lost']} of {over['sent']:,}",
                f"{memory:.0f} MB ({row['memory_ratio']:.2f})",
            )
        )  # fmt: skip
    facts = result["measured with"]
    first, last = sorted(map(int, result["rows"][0]["memory_bytes"]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + (
        f"\n\n{facts['processor']}, {facts['threads']} threads, torch {facts['torch']}, commit {facts['commit']}; "
        f"decoding of a 32 x 32 PNG included. Memory after {last:,} requests, in brackets as a ratio to that after "
        f"{first:,}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--names", nargs="+", default=list(NAMES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "serve.json")
    parser.add_argument("--write", action="store_true", help="put the table into docs/deploy.md")
    options = parser.parse_args()
    if shutil.which("hey") is None:
        raise SystemExit("bench/serve.py needs the program hey: apt install hey")
    result: dict[str, Any] = {
        "what": "the service beside the same work in one process: rates, latencies, overload, memory",
        "connections": CONNECTIONS,
        "rows": [measure(name, options.rounds, options.seconds, options.requests) for name in options.names],
        "measured with": provenance(0),
    }
    write_json(options.out, result)
    print(json.dumps(result, indent=2))
    print(table(result))
    if options.write:
        text = PAGE.read_text()
        before, after = text.split(MARKS[0])[0], text.split(MARKS[1])[1]
        PAGE.write_text(f"{before}{MARKS[0]}\n{table(result)}\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
