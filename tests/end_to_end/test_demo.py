"""`alu demo`: table, page and numbers, on a few images."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from alu.stats import Share
from tests.end_to_end.command import ENVIRONMENT
from tests.unit.expected import bounded, percent
from tests.unit.pages import read


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    command = [str(Path(sys.executable).with_name("alu")), "demo", "--n", "12", "--out", str(folder / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500, env=ENVIRONMENT)
    return folder / "demo", done.stdout


def test_the_table_has_every_row_and_column(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    result = json.loads((folder / "result.json").read_text())
    assert [row["name"] for row in result["rows"]] == [
        "classifier alone",
        "VAE, purified only",
        "VAE + ALU (input)",
        "VAE + ALU (reconstruction)",
        "PCA-500 + ALU (input)",
    ]
    for row in result["rows"]:
        assert set(row["columns"]) == {"clean", "pgd", "decoy", "surrogate"}
        assert all(len(column["correct"]) == 12 for column in row["columns"].values())
    assert "Page: file://" in printed
    assert {"commit", "seed", "n", "torch"} <= set(result["setting"])


def test_every_number_on_the_page_comes_from_the_result(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    rows = json.loads((folder / "result.json").read_text())["rows"]
    figures = read((folder / "index.html").read_text()).figures
    for index, row in enumerate(rows):
        for name, column in row["columns"].items():
            shown = bounded(f"demo/{index}/{name}", Share(sum(column["correct"]), 12), n=False)
            if column["flagged"] is not None:
                shown |= percent(f"demo/{index}/{name}/flagged", Share(sum(column["flagged"]), 12))
            assert {key: figures[key] for key in shown} == shown


def test_the_page_begins_with_the_verdict_and_the_pictures(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    rows = {row["name"]: row["columns"] for row in json.loads((folder / "result.json").read_text())["rows"]}
    page = (folder / "index.html").read_text()

    def kept(row: str, *columns: str) -> int:
        outcomes = [rows[row][name]["correct"] for name in ("clean", *columns)]
        return sum(min(bits) for bits in zip(*outcomes, strict=True))

    alu = "VAE + ALU (input)"
    sentence = (
        f"Against an attacker who does not know the defence, it keeps {kept(alu, 'pgd')} of 12 pictures correct (the "
        f"bare classifier: {kept('classifier alone', 'pgd')}); against an attacker who knows it, "
        f"{kept(alu, 'decoy', 'surrogate')}."
    )
    assert sentence in " ".join(printed.split())
    assert read(page).line.split("does not ", 2)[2].startswith(sentence)
    places = [page.index(part) for part in ("<h1>", "demo/verdict", 'src="data:image/png', "<table", 'class="chart"')]
    assert places == sorted(places)
    assert page.rindex('src="data:image/png') < page.index("<table")


def test_the_page_needs_nothing_from_outside(finished: tuple[Path, str]) -> None:
    page = (finished[0] / "index.html").read_text()
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)
    assert not re.search(r"https?://|@import|url\(|<script\s", page)
