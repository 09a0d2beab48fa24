"""The drawings of the page read back: bars, points, ticks and words are where and what the result says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alu.evaluation.result import Result
from alu.report import write
from tests.unit import results


@pytest.fixture
def shown(tmp_path: Path) -> tuple[Result, list[str]]:
    """A result and the drawings of its page."""
    result = results.result(40)
    write([result], tmp_path / "page.html")
    return result, re.findall(r"<svg.*?</svg>", (tmp_path / "page.html").read_text(), re.S)


def test_bars_are_as_long_as_the_logits(shown: tuple[Result, list[str]]) -> None:
    result, drawings = shown
    drawn = [drawing for drawing in drawings if 'aria-label="logits before and after"' in drawing]
    assert len(drawn) == len(result.examples)
    for example, drawing in zip(result.examples, drawn, strict=True):
        names = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
        classes = [result.classes.index(name) for name in names]
        bold = re.findall(r'<text[^>]*class="true"[^>]*>([^<]*)</text>', drawing)
        assert bold == [result.classes[example["true"]]]
        (zero,) = (float(x) for x in re.findall(r'<line x1="([\d.]+)"', drawing))
        rows = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="5" fill="(#\w+)"', drawing)
        values = {"#b9bfca": [example["before"][k] for k in classes], "#2b5fab": [example["after"][k] for k in classes]}
        widest = max(abs(value) for colour in values for value in values[colour])
        longest = max(float(width) for _, width, _ in rows)
        for colour, wanted in values.items():
            found = [(float(x), float(width)) for x, width, fill in rows if fill == colour]
            for (x, width), value in zip(found, wanted, strict=True):
                assert width / longest == pytest.approx(abs(value) / widest, abs=0.002)
                assert (x < zero - 0.06) == (value < 0 and width > 0.06), "negative bars lie left of zero"


def ticks(drawing: str, anchor: str) -> dict[str, float]:
    """Where the labels of an axis stand: those at the left ("end"), or those below ("middle")."""
    place = "y" if anchor == "end" else "x"
    found = re.findall(rf'<text x="([\d.]+)" y="([\d.]+)" text-anchor="{anchor}">([^<]*)</text>', drawing)
    return {label: float(y) - 4 if place == "y" else float(x) for x, y, label in found}


def test_points_stand_at_their_ticks(shown: tuple[Result, list[str]]) -> None:
    result, drawings = shown
    for name, rows in (("eps", result.curves["eps"]), ("steps", result.curves["steps"])):
        (drawing,) = (one for one in drawings if f'aria-label="Right answers against {name}"' in one)
        left, below = ticks(drawing, "end"), ticks(drawing, "middle")
        points = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>([^<]*)</title>', drawing)
        assert len(points) == len(rows)
        for (x, y, says), row in zip(points, rows, strict=True):
            label = f"{255 * row['eps']:g}" if name == "eps" else str(row["steps"])
            assert float(x) == pytest.approx(below[label], abs=0.2)
            share = (left["0 %"] - float(y)) / (left["0 %"] - left["100 %"])
            assert share == pytest.approx(row["right"] / row["n"], abs=0.002)
            assert f"{row['right']} of {row['n']} right" in says


def test_the_threshold_is_drawn_and_named(shown: tuple[Result, list[str]]) -> None:
    result, drawings = shown
    (drawing,) = (one for one in drawings if "flagged above" in one)
    threshold = result.detection["detector"]["threshold"]
    assert f">flagged above {threshold:.3g}<" in drawing
    (at,) = (float(x) for x in re.findall(r'<line x1="([\d.]+)" x2="[\d.]+" y1="6"', drawing))
    below = {float(label): x for label, x in ticks(drawing, "middle").items()}
    (low, first), (high, last) = min(below.items()), max(below.items())
    assert at == pytest.approx(first + (threshold - low) / (high - low) * (last - first), abs=0.3)
