"""README, docs and page say what the committed results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from alu import models
from alu.experiments.catalog import EXPERIMENTS
from alu.experiments.material import Material
from alu.report.paper.results import read
from alu.report.paper.writing import texts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", ["README.md", "docs/claims.md", "docs/zoo.md", "results/paper.html"])
def test_generated_text_is_up_to_date(path: str) -> None:
    wanted = texts(ROOT)[ROOT / path]
    assert (ROOT / path).read_text(encoding="utf-8") == wanted, (
        f"{path} disagrees with results/. Run: python -m alu.report.paper.writing"
    )


def test_results_are_of_the_bundled_weights_and_of_today_s_committed_code() -> None:
    wrong = []
    for path in sorted((ROOT / "results").glob("*.json")):
        experiment = EXPERIMENTS[path.stem]
        versions = {cell.key: cell.version for cell in experiment.cells(Material(experiment.full))}
        for key, record in read(path)["cells"].items():
            if "found" in record and record.get("version", 1) != versions.get(key):
                wrong.append(f"{path.name}, {key}: measured by another version of the experiment")
            for name, known in record.get("weights", {}).items():
                if models.card(name).sha256[:12] != known:
                    wrong.append(f"{path.name}, {key}: measured with other weights of {name}")
            if record.get("commit", "").endswith("+") or record.get("commit") == "unknown":
                wrong.append(f"{path.name}, {key}: measured with code that was not committed")
    assert wrong == []
