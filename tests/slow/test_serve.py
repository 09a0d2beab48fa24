"""Ten thousand malformed requests; and that memory does not grow with the number of requests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import alu
from tests.end_to_end.test_serve import at_once, hammer, png, post, serving
from tests.serving import ask

pytestmark = pytest.mark.slow


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
