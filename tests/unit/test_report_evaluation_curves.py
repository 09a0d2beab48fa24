"""Curves on a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alu.report import write
from tests.unit import results


@pytest.mark.parametrize(
    ("norm", "sizes", "ticks", "title"),
    [
        ("L2", [0.125, 0.25, 0.5, 1.0, 4.0], ["0.125", "0.25", "0.5", "1", "4"], "eps (not to scale)"),
        ("Linf", [2 / 255, 8 / 255, 64 / 255], ["2", "8", "64"], "eps in 1/255 (not to scale)"),
        ("Linf", [0.01, 8 / 255], ["0.01", "8/255"], "eps (not to scale)"),
    ],
)
def test_the_axis_of_eps_is_in_the_threat_s_own_unit(
    tmp_path: Path, norm: str, sizes: list[float], ticks: list[str], title: str
) -> None:
    result = results.result(20)
    result.threat = {"norm": norm, "eps": sizes[0]}
    result.curves = {"eps": [{"eps": size, "right": 3, "n": 20, "attack": "PGD"} for size in sizes]}
    write([result], tmp_path / "page.html")
    (drawn,) = re.findall(r"<svg[^>]*>.*?</svg>", _chart(tmp_path, "Correct answers against eps"), re.S)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert title in texts
    assert [text for text in texts if text in ticks] == ticks


def _chart(folder: Path, title: str) -> str:
    """The part of the page from a chart's title to the end of its drawing."""
    text = (folder / "page.html").read_text()
    start = text.index(title)
    return text[start : text.index("</svg>", start) + 6]
