"""Templates, style and script: what is filled in is escaped, both colour schemes can be read, all is packaged."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch

import pytest
from jinja2 import UndefinedError

import alu.report
from alu.paper.views import Colour
from alu.report.charts import COLOURS, GREY, INK, OTHER
from alu.report.page import (
    HERE,
    NONE,
    TOO_FEW,
    Figure,
    count,
    distance,
    enough_cell,
    environment,
    figure_cell,
    number,
    percent,
    render,
    share,
    share_cell,
)
from alu.stats import Share
from tests.conftest import ROOT

STYLE = (HERE / "style.css").read_text(encoding="utf-8")
SCRIPT = (HERE / "script.js").read_text(encoding="utf-8")


def variables(scheme: str) -> dict[str, str]:
    """The colours of the light or the dark page."""
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    given = dict(re.findall(r"--(\w+): (#\w+);", light))
    return given | dict(re.findall(r"--(\w+): (#\w+);", dark)) if scheme == "dark" else given


def luminance(colour: str) -> float:
    whole = colour if len(colour) == 7 else "#" + "".join(2 * digit for digit in colour[1:])
    channels = [int(whole[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    """The contrast ratio of WCAG 2."""
    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_charts_can_be_read_in_both_schemes(scheme: str) -> None:
    colours = variables(scheme)
    words = ("ink", "soft", "good", "bad", "accent", "clean", "oblivious", "surrogate", "adaptive", "other")
    for name, behind in [*((name, "page") for name in words), ("ink", "pale"), ("soft", "pale"), ("bad", "pale")]:
        assert contrast(colours[name], colours[behind]) >= 4.5, (name, behind)
    for shape in ("axis", "before", "after", "slate", "blue", "red", "green", "purple", "amber", "teal"):
        assert contrast(colours[shape], colours["page"]) >= 3, shape


def test_both_schemes_set_every_colour_and_the_style_uses_no_other() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    assert set(re.findall(r"--(\w+):", light)) == set(re.findall(r"--(\w+):", dark))
    rest = STYLE.replace(light, "").replace(dark, "")
    assert {*re.findall(r"var\(--(\w+)\)", rest)} <= {*variables("light")}
    assert not re.findall(r"#\w{3,6}\b", rest)
    drawn = {*COLOURS.values(), OTHER, INK, GREY, *Colour}
    assert drawn <= {f"var(--{name})" for name in variables("light")}
    code = "".join(path.read_text() for path in HERE.glob("*.py"))
    assert not re.findall(r"#[0-9a-f]{3,6}\b", code), "drawings take all their colours from the style sheet"


def test_a_page_is_printed_light() -> None:
    assert re.findall(r"@media([^{]*prefers-color-scheme[^{]*)", STYLE) == [" screen and (prefers-color-scheme: dark) "]


def test_rows_that_were_filtered_away_are_printed() -> None:
    assert "tr[hidden] { display: table-row; }" in STYLE.split("@media print")[1]


def test_what_is_filled_in_is_escaped_and_what_is_missing_is_an_error() -> None:
    page = render("base.html.j2", title="</title><script>alert(1)</script> & co")
    assert "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt; &amp; co</title>" in page
    with pytest.raises(UndefinedError, match="title"):
        render("base.html.j2")


def test_the_script_is_small_and_uses_nothing_from_outside() -> None:
    assert len(SCRIPT.encode()) < 6_000
    assert not re.search(r"innerHTML|fetch|import|XMLHttp|eval|https?:", SCRIPT)
    assert "</script" not in SCRIPT


def test_templates_mark_as_safe_only_what_this_package_draws() -> None:
    safe = [
        match
        for name in environment().list_templates()
        for match in re.findall(r"\{\{ ([\w.]+) \| safe \}\}", (HERE / "templates" / name).read_text())
    ]
    assert sorted(safe) == ["c.drawing", "drawing", "script", "style"]
    texts = "".join((HERE / "templates" / name).read_text() for name in environment().list_templates())
    assert texts.count("safe") == len(safe), "no other way around the escaping"


def test_files_that_are_no_code_are_part_of_the_package() -> None:
    globs = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["alu"]
    package = HERE.parent
    missing = [
        str(path.relative_to(package))
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
        if not any(fnmatch(str(path.relative_to(package)), glob) for glob in globs)
    ]
    assert missing == []
    assert alu.report.__file__ == str(HERE / "__init__.py")


def test_figures_keep_the_exact_value_beside_the_text() -> None:
    assert number("a", 2 / 3, 2) == Figure("a", 2 / 3, "0.67")
    assert percent("a", 1 / 3) == Figure("a", 1 / 3, "33.3 %")
    assert count("a", 12) == Figure("a", 12, "12")
    assert distance("a", 8 / 255, "Linf") == Figure("a", 8 / 255, "8.0/255")
    assert distance("a", 0.5, "L2") == Figure("a", 0.5, "0.500")


def test_a_share_has_a_key_for_each_of_its_figures() -> None:
    given = share("a/b", Share(3, 40), at_most=True)
    assert given is not None
    figures = (given.percent, given.low, given.high, given.count, given.n)
    assert [one.key for one in figures] == ["a/b", "a/b.low", "a/b.high", "a/b.count", "a/b.n"]
    assert [one.text for one in figures] == ["7.5 %", "2.6", "19.9", "3", "40"]
    assert given.amount == ["at most ", given.percent]
    assert given.interval == ["[", given.low, ", ", given.high, "]"]


def test_nothing_is_a_dash_and_a_handful_is_too_few() -> None:
    assert share("a", None) is None
    assert share("a", Share(0, 0)) is None
    assert figure_cell(None) is share_cell("a", None) is share_cell("a", Share(0, 0)) is NONE
    assert enough_cell("a", None) is enough_cell("a", Share(0, 0)) is NONE
    assert enough_cell("a", Share(1, 11)) is TOO_FEW
    assert enough_cell("a", Share(1, 12)) == share_cell("a", Share(1, 12))


def test_n_stands_in_a_cell_where_no_other_says_it() -> None:
    given = share("a", Share(3, 40))
    assert given is not None
    assert share_cell("a", Share(3, 40)).small == [[*given.interval, " n = ", given.n]]
    assert share_cell("a", Share(3, 40), n=False).small == [given.interval]
    assert share_cell("a", Share(3, 40), at_most=True).parts == ["at most ", given.percent]
