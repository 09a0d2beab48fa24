"""README, docs and page say what the committed results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from alu import models
from alu.report.paper.results import read
from alu.report.paper.writing import texts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", ["README.md", "docs/claims.md", "docs/zoo.md", "results/paper.html"])
def test_generated_text_is_up_to_date(path: str) -> None:
    wanted = texts(ROOT)[ROOT / path]
    assert (ROOT / path).read_text(encoding="utf-8") == wanted, (
        f"{path} disagrees with results/. Run: python -m alu.report.paper.writing"
    )


def test_results_are_of_the_bundled_weights_and_of_committed_code() -> None:
    wrong = []
    for path in sorted((ROOT / "results").glob("*.json")):
        for key, record in read(path)["cells"].items():
            for name, known in record.get("weights", {}).items():
                if models.card(name).sha256[:12] != known:
                    wrong.append(f"{path.name}, {key}: measured with other weights of {name}")
            if record.get("commit", "").endswith("+") or record.get("commit") == "unknown":
                wrong.append(f"{path.name}, {key}: measured with code that was not committed")
    assert wrong == []
