"""Ten thousand malformed requests; that memory does not grow with the number of requests; and what HTTP costs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import alu
from tests.end_to_end.command import ENVIRONMENT
from tests.end_to_end.test_serve import at_once, hammer, png, post, serving
from tests.serving import ask

pytestmark = pytest.mark.slow
BENCH = Path(__file__).parents[2] / "bench" / "serve.py"


def test_ten_thousand_malformed_requests(tmp_path: Path, saved_pca: Path) -> None:
    (tmp_path / "temporary").mkdir()
    options = ("--resize", "--max-pixels", 1_000_000)
    with serving(tmp_path, saved_pca, *options, TMPDIR=str(tmp_path / "temporary")) as (process, port):
        hammer(process, port, tmp_path, range(10_000, 20_000))


def test_memory_stays(tmp_path: Path, saved_pca: Path) -> None:
    body = png(alu.data.sample("test").pixels[0])

    def resident(port: int) -> float:
        found = re.search(r"^process_resident_memory_bytes (\S+)", ask(port, "GET", "/metrics").body.decode(), re.M)
        assert found
        return float(found[1])

    with serving(tmp_path, saved_pca, "--audit", "audit.jsonl", "--state", "state.json") as (_, port):
        at_once(lambda _: post(port, body), 1_000, 16)
        before = resident(port)
        at_once(lambda _: post(port, body), 10_000, 16)
        assert resident(port) < 1.1 * before


@pytest.mark.skipif(shutil.which("hey") is None, reason="needs the program hey, which is not there")
def test_what_http_costs(tmp_path: Path) -> None:
    # Both sides are measured in turns, so that other work on the machine falls on both. Loosely: it must be seen when
    # the service falls back to a third of what the engine can do, not when a machine is a little slower.
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "OMP_NUM_THREADS"}  # all cores
    options = ["--names", "demo@0", "--rounds", "3", "--seconds", "3", "--requests", "2000", "--out", "out.json"]
    done = subprocess.run(
        [sys.executable, BENCH, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "out.json").read_text())["rows"]
    over = row["overload"]
    assert row["rate_ratio"] > 0.4
    assert row["lone_ratio"] < 2
    assert (over["lost"], over["answered_200"] + over["answered_503"]) == (0, over["sent"])
    assert over["rate_to_peak"] > 0.6
