"""The charts themselves: bars, lines with names, dots, and a drawing as a file of its own."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from alu.report.axes import Axes, linear, shares
from alu.report.charts import GREY, INK, Dot, Group, Line, Mark, bars, cloud, dots, histogram, lines, standalone
from alu.stats import Share


def test_bars_are_as_long_as_the_logits() -> None:
    before, after = [-3.0, 0.5, 6.0], [1.0, -4.5, 2.0]
    drawing = bars(["a cat", "<dog>", "bird"], before, after, 1)
    assert re.findall(r"<text[^>]*>([^<]*)</text>", drawing) == ["a cat", "&lt;dog&gt;", "bird"]
    assert re.findall(r'<text[^>]*class="true"[^>]*>([^<]*)</text>', drawing) == ["&lt;dog&gt;"]
    (zero,) = (float(x) for x in re.findall(r'<line x1="([\d.]+)"', drawing))
    rows = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="5" fill="([^"]+)"', drawing)
    longest = max(float(width) for _, width, _ in rows)
    for colour, wanted in (("var(--before)", before), ("var(--after)", after)):
        drawn = [(float(x), float(width)) for x, width, fill in rows if fill == colour]
        for (x, width), value in zip(drawn, wanted, strict=True):
            assert width / longest == pytest.approx(abs(value) / 6.0, abs=0.002)
            assert (x < zero - 0.06) == (value < 0), "negative bars lie left of zero"


def test_names_that_would_leave_the_frame_are_pushed_back() -> None:
    axes = Axes(shares(), shares(), "x", "y")
    low = [Line(f"line {at}", INK, [(0.0, 0.0)], [Mark(f"{at}", 0.1, 0.0, "")]) for at in range(3)]
    high = [Line(f"line {at}", INK, [(0.0, 1.0)], [Mark(f"{at}", 0.1, 1.0, "")]) for at in range(3)]
    for drawn in (low, high):
        places = [
            float(y) for y in re.findall(r'class="name" x="[\d.]+" y="([\d.]+)"', lines(axes, "", drawn, named="mark"))
        ]
        assert [round(below - above) for above, below in pairwise(places)] == [15, 15]
        assert axes.top < places[0]
        assert places[-1] <= axes.height - axes.bottom


def test_a_histogram_counts_every_value_once() -> None:
    groups = [Group("few", "red", [0.0, 1.0, 2.0]), Group("many <", "blue", [float(at) for at in range(100)])]
    drawing = histogram(groups, 50.0, other=("the other", 20.0))
    counts = [[int(count) for count in row.split()] for row in re.findall(r'data-counts="([\d ]+)"', drawing)]
    assert [sum(row) for row in counts] == [3, 100]
    assert "<title>many &lt;</title>" in drawing
    assert "dashed: flagged above 50<" in drawing
    assert "dotted: the other 20<" in drawing


def test_points_beyond_the_frame_are_rings_on_it() -> None:
    axes = Axes(linear(0.0, 10.0), linear(0.0, 10.0), "x", "y")
    drawing = cloud(axes, "points", [(5.0, 5.0), (99.0, 5.0)], "red")
    rings = re.findall(r'<circle cx="([\d.]+)" cy="[\d.]+" r="2.4" class="ring"', drawing)
    assert [float(x) for x in rings] == [axes.across(10.0)]
    assert drawing.count("<circle") == 2


def test_dots_stand_at_their_shares_with_their_intervals() -> None:
    rows = [Dot("first", Share(10, 40), INK, "group", 0.5), Dot("second & last", Share(40, 40), INK, "group")]
    drawing = dots("shares", rows)
    points = re.findall(
        r'<circle cx="([\d.]+)"[^>]*fill="([^"]+)"[^>]*data-key="([^"]*)" data-value="([^"]*)"', drawing
    )
    assert [(fill, key, value) for _, fill, key, value in points] == [
        (GREY, "group: first: the paper", "0.5"),
        (INK, "group: first", "0.25"),
        (INK, "group: second &amp; last", "1.0"),
    ]
    half, quarter, whole = (float(x) for x, *_ in points)
    assert (half - quarter) * 2 == pytest.approx(whole - half, abs=0.2)
    assert drawing.count(">group<") == 1
    assert "25.0 [14.2, 40.2] n=40; paper 50" in drawing


def test_a_drawing_can_stand_alone() -> None:
    text = standalone(dots("shares", [Dot("one & only", Share(1, 2), INK)]))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[0].tag.endswith("style")
    assert "var(" not in text, "there is no style sheet to look colours up in"
    assert 'fill="#1c2430" stroke="#fff"' in text


def test_a_legend_stands_above_a_drawing_of_its_own() -> None:
    plain = dots("shares", [Dot("one", Share(1, 2), INK)])
    root = ElementTree.fromstring(standalone(plain, [("first & best", INK), ("second", GREY)]))
    left, top, width, height = map(int, root.attrib["viewBox"].split())
    assert (left, width, root.attrib["width"]) == (0, 840, "840")
    assert top + height == int(re.findall(r'viewBox="0 0 840 (\d+)"', plain)[0]), "the drawing stays where it was"
    names = [text for text in root if text.text in ("first & best", "second")]
    assert [top < float(text.attrib["y"]) <= 0 for text in names] == [True, True]


@pytest.mark.parametrize("threshold", [None, 0.0, -2.0])
def test_scores_may_be_negative_and_a_threshold_unknown(threshold: float | None) -> None:
    drawing = histogram([Group("clean", "red", [-4.0, -3.0, -1.0, 0.5])], threshold)
    counts = re.findall(r'data-counts="([\d ]+)"', drawing)
    assert [sum(map(int, row.split())) for row in counts] == [4]
    assert ("flagged above" in drawing) == (threshold is not None)
