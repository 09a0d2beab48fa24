"""Templates, style and script: what is filled in is escaped, both colour schemes can be read, all is packaged."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch

import pytest
from jinja2 import UndefinedError

import alu.report
from alu.report.charts import COLOURS, OTHER
from alu.report.page import HERE, environment, render
from tests.conftest import ROOT

STYLE = (HERE / "style.css").read_text(encoding="utf-8")
SCRIPT = (HERE / "script.js").read_text(encoding="utf-8")


def variables(scheme: str) -> dict[str, str]:
    """The colours of the light or the dark page."""
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    given = dict(re.findall(r"--(\w+): (#\w{6});", light))
    return given | dict(re.findall(r"--(\w+): (#\w{6});", dark)) if scheme == "dark" else given


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
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
    for shape in ("axis", "before", "after"):
        assert contrast(colours[shape], colours["page"]) >= 3, shape


def test_both_schemes_set_every_colour_and_the_style_uses_no_other() -> None:
    light, dark = re.findall(r":root \{(.*?)\}", STYLE, re.S)
    assert set(re.findall(r"--(\w+):", light)) == set(re.findall(r"--(\w+):", dark))
    rest = STYLE.replace(light, "").replace(dark, "")
    assert {*re.findall(r"var\(--(\w+)\)", rest)} <= {*variables("light")}
    # The colours that drawings carry as attributes are named, to be replaced; no other stands outside of the variables.
    assert {*re.findall(r"#\w{3,6}\b", rest)} == {"#99a", "#1c2430", "#fff", "#b9bfca", "#2b5fab"}
    assert {COLOURS[level] for level in COLOURS} | {OTHER} <= {f"var(--{name})" for name in variables("light")}


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
