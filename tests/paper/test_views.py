"""Tables for a terminal and a page, and numbers as they are written."""

from __future__ import annotations

from alu.paper.views import Table, paper_number, paper_protocol, percent, points, standard_protocol
from alu.stats import Estimate, Share
from tests.paper.toys import answers


def test_a_remark_does_not_widen_the_columns() -> None:
    shown = Table("t", ["", "a", "b"], [["one", "1", "2"], ["second", "a long sentence about nothing."]])
    assert shown.text().splitlines()[3:] == ["one     1  2", "second  a long sentence about nothing."]
    assert '<td class="over" colspan="2">a long sentence' in shown.html()


def test_a_page_escapes_words_and_folds_what_a_figure_shows() -> None:
    shown = Table("<t>", ["", "a"], [["<one>", "50.0 [9.5, 90.5] n=2"]], "a & b", folded=True).html()
    assert "<details" in shown
    assert "&lt;t&gt;" in shown
    assert "&lt;one&gt;" in shown
    assert "a &amp; b" in shown
    assert "50.0<br><small>[9.5, 90.5] n=2</small>" in shown


def test_numbers_carry_interval_and_n() -> None:
    assert percent("10") == percent(Share(1, 2)) == "50.0 [9.5, 90.5] n=2"
    assert percent("") == percent(None) == "–"
    assert points(Estimate(-0.034, (-0.062, -0.011), 178)) == "-3.4 [-6.2, -1.1] points"
    assert (paper_number(64.52), paper_number(None)) == ("paper 64.52", "–")


def test_fewer_hard_images_are_the_first_of_the_clean_ones() -> None:
    cells = [answers("1111", "1111", "0111"), None, answers("11", "11", "11")]
    assert standard_protocol(cells, "input", "alu") == ["75.0 [30.1, 95.4] n=4", "–", "50.0 [9.5, 90.5] n=2"]
    assert paper_protocol(cells, "input", "alu")[2].startswith("100.0 ")


def test_clean_images_are_not_all_flagged() -> None:
    cells = [answers("11", "11", "11", everything="00"), answers("11", "11", "00", everything="11")]
    assert standard_protocol(cells, "input", "all flagged")[1].startswith("100.0 ")
