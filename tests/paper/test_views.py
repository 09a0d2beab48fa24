"""Tables for a terminal, and numbers as they are written."""

from __future__ import annotations

from alu.paper.views import (
    Row,
    Table,
    curve,
    paper_number,
    paper_protocol,
    percent,
    points,
    protocols,
    standard_protocol,
)
from alu.stats import Estimate, Share
from tests.paper.toys import answers, note, rows


def test_a_remark_does_not_widen_the_columns() -> None:
    shown = Table("t", ["", "a", "b"], [["one", "1", "2"], ["second", "a long sentence about nothing."]])
    assert shown.text().splitlines()[3:] == ["one     1  2", "second  a long sentence about nothing."]


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


def test_a_table_without_rows_says_so() -> None:
    assert Table("t", ["", "a", "b"], []).rows == [["", "not measured yet"]]


def test_both_protocols_of_the_same_rows() -> None:
    clean, attacked = answers("1100", "1100", "1100", flagged="0000"), answers("0000", "0111", "0110", flagged="1111")
    union = {"adaptive": "1100"}
    rows_given = [
        Row("one", [clean, attacked], ("input", "alu"), union, paper=(90.5, None)),
        Row("apart", [clean, attacked], ("input", "alu"), union, together=[clean]),
        Row("flags", [clean, attacked], ("input", "flagged")),
        Row("half", [None, attacked], ("purified",)),
        Row("none", [None, None], ("bare",), why="nobody trained it."),
        Row("theirs", [None, None], ("bare",), paper=(80, 70)),
    ]
    paper, standard = protocols("Set", ["clean", "attacked"], rows_given, "a note")
    first, second = rows(paper), rows(standard)
    assert first["one: the paper"] == ["paper 90.5", "–"]
    assert first["one: here"] == ["50.0 [15.0, 85.0] n=4"] * 2, "whatever was answered clean"
    assert [cell[:5] for cell in second["one"]] == ["50.0 ", "25.0 ", "25.0 "], "the suite, and the table's own attack"
    assert second["apart"][-1].startswith("50.0 "), "only the attacks that count"
    assert first["flags"][1].startswith("100.0 ")
    assert "flags" not in second, "a flag is no answer"
    assert (first["half"][0], second["half"]) == ("–", ["not measured yet"])
    assert first["none"] == second["none"] == ["nobody trained it."]
    assert first["theirs: the paper"] == ["paper 80", "paper 70"]
    assert not {"theirs", "theirs: here"} & {*first, *second}, "the paper's alone"
    assert note(paper) == "a note"


def test_a_curve_carries_its_intervals() -> None:
    line = curve("deployed", "red", [(0, Share(1, 2)), (50, Estimate(0.25, (0.1, 0.4), 9))], ".2f")
    assert line.points == [(0.0, 0.5), (50.0, 0.25)]
    assert [mark.key for mark in line.marks] == ["deployed/0", "deployed/50"]
    assert [mark.says for mark in line.marks] == [
        "deployed, 0: 50.0 [9.5, 90.5] n=2", "deployed, 50: 0.25 [0.10, 0.40]",
    ]  # fmt: skip
    assert line.marks[1].ends == (0.1, 0.4)
