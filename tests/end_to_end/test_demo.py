"""`alu demo`: table, page and numbers, on a few images."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from alu import models
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
        "VAE, rule graded",
        "VAE + ALU (input)",
        "VAE + ALU (reconstruction)",
        "PCA-500 + ALU (input)",
        "robust classifier alone",
        "robust classifier + check",
        *(["certificate"] if "cifar10-smooth" in models.names() else []),
    ]
    for index, row in enumerate(result["rows"]):
        columns = ["clean", "pgd", "decoy", "surrogate"][: 4 if index < 6 else 2 if index < 8 else 1]
        assert list(row["columns"]) == [*columns, "everything"]
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
            for what in ("flagged", "answered"):
                if column[what] is not None:
                    shown |= percent(f"demo/{index}/{name}/{what}", Share(sum(column[what]), 12))
            assert {key: figures[key] for key in shown} == shown


def test_the_page_begins_with_the_verdict_and_the_pictures(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    rows = {row["name"]: row["columns"] for row in json.loads((folder / "result.json").read_text())["rows"]}
    page = (folder / "index.html").read_text()

    def kept(row: str, *columns: str) -> int:
        outcomes = [rows[row][name]["correct"] for name in columns]
        return sum(min(bits) for bits in zip(*outcomes, strict=True))

    alu = "VAE + ALU (input)"
    sentence = (
        f"Against an attacker who does not know the defence, it keeps {kept(alu, 'clean', 'pgd')} of 12 pictures "
        f"correct (the bare classifier: {kept('classifier alone', 'clean', 'pgd')}); against an attacker who knows "
        f"everything, {kept(alu, 'everything')}. Of a robust classifier behind a check, even that attacker leaves "
        f"{kept('robust classifier + check', 'everything')} pictures that are right and never answered wrongly "
        f"(without the check: {kept('robust classifier alone', 'everything')})."
    )
    assert kept(alu, "everything") <= kept(alu, "clean", "decoy", "surrogate")
    assert sentence in " ".join(printed.split())
    assert read(page).line.split("does not ", 2)[2].startswith(sentence)
    places = [page.index(part) for part in ("<h1>", "demo/verdict", 'src="data:image/png', "<table", 'class="chart"')]
    assert places == sorted(places)
    assert page.rindex('src="data:image/png') < page.index("<table")


def test_the_page_needs_nothing_from_outside(finished: tuple[Path, str]) -> None:
    page = (finished[0] / "index.html").read_text()
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)
    assert not re.search(r"https?://|@import|url\(|<script\s", page)
