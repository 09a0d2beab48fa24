"""The charts of the evaluation's page read back: points, ticks and words are where and what the result says."""

from __future__ import annotations

import re
from itertools import pairwise
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


def ticks(drawing: str, anchor: str) -> dict[str, float]:
    """Where the labels of an axis stand: those at the left ("end"), or those below ("middle")."""
    place = "y" if anchor == "end" else "x"
    found = re.findall(rf'<text x="([\d.]+)" y="([\d.]+)" text-anchor="{anchor}">([^<]*)</text>', drawing)
    return {label: float(y) - 4 if place == "y" else float(x) for x, y, label in found}


def test_points_stand_at_their_ticks(shown: tuple[Result, list[str]]) -> None:
    result, drawings = shown
    for name, rows in (("eps", result.curves["eps"]), ("steps", result.curves["steps"])):
        (drawing,) = (one for one in drawings if f'aria-label="Correct answers against {name}"' in one)
        left, below = ticks(drawing, "end"), ticks(drawing, "middle")
        points = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"[^>]*><title>([^<]*)</title>', drawing)
        assert len(points) == len(rows)
        for (x, y, says), row in zip(points, rows, strict=True):
            label = f"{255 * row['eps']:g}" if name == "eps" else str(row["steps"])
            assert float(x) == pytest.approx(below[label], abs=0.2)
            share = (left["0 %"] - float(y)) / (left["0 %"] - left["100 %"])
            assert share == pytest.approx(row["right"] / row["n"], abs=0.002)
            assert f"{row['right']} of {row['n']} correct" in says


def test_the_threshold_is_drawn_and_named(shown: tuple[Result, list[str]]) -> None:
    result, drawings = shown
    (drawing,) = (one for one in drawings if "flagged above" in one)
    threshold = result.detection["detector"]["threshold"]
    assert f">flagged above {threshold:.3g}<" in drawing
    (at,) = (float(x) for x in re.findall(r'<line x1="([\d.]+)" x2="[\d.]+" y1="6"', drawing))
    below = {float(label): x for label, x in ticks(drawing, "middle").items()}
    (low, first), (high, last) = min(below.items()), max(below.items())
    assert at == pytest.approx(first + (threshold - low) / (high - low) * (last - first), abs=0.3)


def test_few_lines_each_with_its_name_beside_it(tmp_path: Path) -> None:
    result = results.result(200)
    write([result], tmp_path / "page.html")
    drawings = re.findall(r"<svg.*?</svg>", (tmp_path / "page.html").read_text(), re.S)
    for label, most in (("ROC", 3), ("coverage against risk", 4)):
        (drawing,) = (one for one in drawings if f'aria-label="{label}"' in one)
        named = re.findall(r'<text class="name" x="([\d.]+)" y="([\d.]+)" style="fill:([^;]+)[^>]*>([^<]*)<', drawing)
        drawn = re.findall(r'<polyline [^>]*stroke="([^"]+)"[^>]*><title>([^<]*)<', drawing)
        assert 2 <= len(drawn) <= most
        assert sorted((colour, name) for _, _, colour, name in named) == sorted(drawn)
        assert len({colour for colour, _ in drawn}) == len(drawn)
        heights = sorted(float(y) for _, y, _, _ in named)
        assert all(above + 14 <= below for above, below in pairwise(heights)), "names do not cover each other"
        assert heights[-1] <= 300 - 46, "and stay inside"


def circles(drawing: str) -> list[tuple[float, float, bool]]:
    points = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="2.4" (class="ring")?', drawing)
    return [(float(x), float(y), bool(ring)) for x, y, ring in points]


def test_points_lie_whole_inside_the_frame(tmp_path: Path) -> None:
    result = results.result(60)
    write([result], tmp_path / "page.html")
    drawings = re.findall(r"<svg.*?</svg>", (tmp_path / "page.html").read_text(), re.S)
    clouds = [circles(drawing) for drawing in drawings if 'r="2.4"' in drawing]
    assert len(clouds) == 4
    for x, y, ring in (point for cloud in clouds for point in cloud):
        assert not ring
        assert 58 + 2.4 < x < 420 - 24 - 2.4
        assert 12 + 2.4 < y < 360 - 46 - 2.4


def test_a_few_far_points_are_rings_on_the_frame(tmp_path: Path) -> None:
    result = results.result(300)
    result.clean.rise_true[0], result.clean.rise_other[1] = -1000.0, 2000.0
    write([result], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    drawing = next(one for one in re.findall(r"<svg.*?</svg>", text, re.S) if 'aria-label="Clean images"' in one)
    points = circles(drawing)
    assert sum(ring for _, _, ring in points) == 2
    rest = [y for _, y, ring in points if not ring]
    assert max(rest) - min(rest) > 60, "the others are not squeezed"
    assert 'data-key="result-0/changes/clean.beyond" data-value="2"' in text


def test_the_axis_of_the_risk_ends_where_the_lines_do(tmp_path: Path) -> None:
    result = results.result(200)
    for one in (result.clean, *(record.answers for record in result.attacks)):
        one.purified = [result.labels[image] for image in one.images]
    result.clean.purified[3] = (result.labels[3] + 1) % 10
    write([result], tmp_path / "page.html")
    drawings = re.findall(r"<svg.*?</svg>", (tmp_path / "page.html").read_text(), re.S)
    (drawing,) = (one for one in drawings if 'aria-label="coverage against risk"' in one)
    labels = ticks(drawing, "end")
    assert max(float(label.removesuffix(" %")) for label in labels) <= 10
    assert len(labels) >= 4
