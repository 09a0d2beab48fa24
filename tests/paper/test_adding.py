"""Adding a table is one file and one word: everything else follows from the Experiment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools.write_documents import summary
from typer.testing import CliRunner

from alu.cli import app
from alu.paper import EXPERIMENTS, page, verdicts
from alu.paper.store import Results
from tests.paper import coins
from tests.paper.toys import verdict


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the word in alu.paper.MODULES does."""
    monkeypatch.setitem(EXPERIMENTS, coins.EXPERIMENT.name, coins.EXPERIMENT)


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["reproduce", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_knows_it(tmp_path: Path) -> None:
    assert "coins          Coins. Is the bent coin bent?\n" in run("list")
    printed = run("coins", "--out", str(tmp_path))
    assert "== Coins ==" in printed
    assert "The paper: It falls on heads less often. Holds." in printed
    result = json.loads((tmp_path / "coins.json").read_text())
    assert (list(result["cells"]), result["complete"], result["sizes"]) == (["fair", "bent"], True, {"n": 200})
    again = run("coins", "--out", str(tmp_path), "--only", "bent")
    assert "2 of 2 cells were in" in again


def test_the_page_and_the_claims_show_it(tmp_path: Path) -> None:
    run("coins", "--out", str(tmp_path))
    results = Results.open(tmp_path)
    html = page.html(results)
    assert '<h2 id="coins">Coins</h2>' in html
    assert '<a href="#claim-a-bent-coin-is-bent">' in html
    assert (tmp_path / "paper.html").read_text() == html
    assert "## a bent coin is bent\n" in page.markdown(results)
    assert f"Of {len(verdicts(results))} claims of the paper: 1 holds; " in summary(results)
    assert verdict(results, "a bent coin is bent").experiments == ("coins",)


def test_it_has_a_quick_form(tmp_path: Path) -> None:
    assert "Too few images to tell." in run("coins", "--quick", "--out", str(tmp_path))
    assert json.loads((tmp_path / "coins.json").read_text())["sizes"] == {"n": 20}
    assert "Quick form: a first look" in (tmp_path / "paper.html").read_text()


def test_it_is_small() -> None:
    lines = Path(coins.__file__).read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 35
