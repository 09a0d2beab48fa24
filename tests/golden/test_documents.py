"""README, docs and page say what the committed results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from alu.report.paper.writing import texts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", ["README.md", "docs/claims.md", "docs/zoo.md", "results/paper.html"])
def test_generated_text_is_up_to_date(path: str) -> None:
    wanted = texts(ROOT)[ROOT / path]
    assert (ROOT / path).read_text(encoding="utf-8") == wanted, (
        f"{path} disagrees with results/. Run: python -m alu.report.paper.writing"
    )
