"""The tables of the evaluation's page, as rows of cells: what each row says, what is marked, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from alu.evaluation.result import Answers, Result
from alu.report.evaluation import bare
from alu.report.evaluation_charts import detection_table
from alu.report.evaluation_tables import attacks, harmless, pairs, setting, side_by_side
from alu.report.page import Cell, Part, Row, Table
from tests.unit import results


def line(parts: Sequence[Part]) -> str:
    return "".join(part if isinstance(part, str) else part.text for part in parts)


def words(cell: Cell) -> str:
    return " ".join([line(cell.parts), *map(line, cell.small)])


def cells(table: Table) -> list[list[str]]:
    """The words of a table's rows; of a remark the label and the remark."""
    return [[row.name, *([row.remark] if row.remark else map(words, row.cells))] for row in table.rows]


def few(result: Result, count: int) -> Result:
    """The first attack had so many images only."""
    record = result.attacks[0]
    for name in vars(record.answers):
        setattr(record.answers, name, getattr(record.answers, name)[:count])
    record.distance = record.distance[:count]
    return result


@pytest.mark.parametrize("build", [attacks, harmless, detection_table])
@pytest.mark.parametrize("rule", ["alu", "abstain"])
def test_every_row_is_as_wide_as_its_table(build: object, rule: str) -> None:
    assert callable(build)
    table: Table = build("result-0", results.result(60, rule=rule))
    assert {len(row.cells) for row in table.rows if not row.remark} == {len(table.columns) - 1}
    assert sum(span for _, span in table.groups) == len(table.columns)


def test_the_bare_classifier_has_a_table() -> None:
    result = results.result(60)
    assert result.bare is not None
    result.bare.attacks[1].answers, result.bare.attacks[1].distance = Answers(), []
    result.bare.unmet = ["no attack without gradients"]
    context = bare("result-0/bare", result)
    assert context is not None
    assert (context["name"], context["unmet"]) == ("the classifier", ["no attack without gradients"])
    assert context["kept"].at_most
    assert [row[0] for row in cells(context["table"])] == ["pgd-20", "square"]
    assert cells(context["table"])[1][1] == "Not run: earlier attacks had broken every image."
    result.bare.attacks[1].failed = "no gradient."
    context = bare("result-0/bare", result)
    assert context is not None
    assert cells(context["table"])[1][1] == "Could not run: no gradient."
    result.bare = None
    assert bare("result-0/bare", result) is None


def test_every_row_of_an_attack_can_be_filtered_by_what_the_attacker_knows() -> None:
    result = results.result(130)
    result.attacks[2].notes, result.attacks[5].answers, result.attacks[5].distance = ["a warning"], Answers(), []
    table = attacks("result-0", result)
    assert [(row.name, row.knowledge, row.remark[:7]) for row in table.rows] == [
        ("fgsm", "oblivious", ""),
        ("pgd-20", "oblivious", ""),
        ("surrogate pgd-20", "surrogate", ""),
        ("", "surrogate", "a warni"),
        ("decoy", "adaptive", ""),
        ("stealth", "adaptive", ""),
        ("query", "adaptive", "Not run"),
    ]
    assert table.levels == ["oblivious", "surrogate", "adaptive"]


def test_moderate_changes_come_first_and_losses_are_marked() -> None:
    table = harmless("result-0", results.result(40))
    rows = cells(table)
    assert [row[0] for row in rows] == ["JPEG, quality 90", "brightness +0.1", "Strong changes", "Gaussian noise 0.2"]
    assert [row.name for row in table.rows if row.heading] == ["Strong changes"]
    # 45 of 50 bare, 42 purified, 40 deployed: five images, ten points.
    assert [row[3] for row in rows if len(row) > 2] == [
        "80.0 % [67.0, 88.8] 10.0 points lost", "88.0 % [76.2, 94.4]", "66.0 % [52.2, 77.6] 4.0 points lost",
    ]  # fmt: skip
    assert [row.cells[2].kind for row in table.rows if row.cells] == ["marked", "", "marked"]
    assert rows[0][1:3] == ["90.0 % [78.6, 95.7]", "84.0 % [71.5, 91.7]"]
    assert len(rows[0]) == 5
    assert "rejected" not in table.columns
    rejecting = cells(harmless("result-0", results.result(40, rule="abstain")))
    assert rejecting[0][4:] == [rejecting[0][4], rejecting[0][4]], "every flagged image is rejected"


def test_two_points_are_not_marked_and_more_are() -> None:
    result = results.result(40)
    row = {**result.detection["harmless"][1], "bare": 50, "purified": 40, "n": 50}
    for correct, kind in ((50, ""), (49, ""), (48, "marked")):
        result.detection["harmless"] = [{**row, "right": correct}]
        assert [row.cells[2].kind for row in harmless("result-0", result).rows] == [kind]


def test_a_defence_without_a_detector_has_no_flags() -> None:
    result = results.result(40, rule="purified")
    result.detection.pop("detector")
    assert [row[4] for row in cells(harmless("result-0", result)) if len(row) > 2] == ["–"] * 3


def test_rows_of_an_older_version_are_shown() -> None:
    result = results.result(40)
    result.detection["harmless"] = [{"change": "10 % brighter", "flagged": 3, "right": 40, "n": 50}]
    (row,) = cells(harmless("result-0", result))
    assert row[:3] == ["10 % brighter", "–", "–"]
    assert row[3].startswith("80.0 %")
    assert "harmless changes" not in str(result)


def test_every_row_of_a_comparison_says_under_what_it_was_measured() -> None:
    first, second = results.result(40), results.result(40)
    second.threat, second.budget, second.unmet = {"norm": "Linf", "eps": 2 / 255}, "full", ["no query attack"]
    under = [setting(result) for result in (first, second)]
    assert under == [
        f"Linf eps {eps}, suite adaptive, budget {budget}, n = 40"
        for eps, budget in (("8/255", "quick"), ("2/255", "full"))
    ]
    rows: Sequence[Row] = side_by_side([first, second]).rows
    assert [row.name for row in rows] == ["1. VAE + ALU", "2. VAE + ALU"]
    assert [row.small for row in rows] == [[under[0]], [under[1], "INCOMPLETE"]]
    assert [row.link for row in rows] == ["result-0", "result-1"]
    (pair,) = pairs([first, second]).rows
    assert [pair.name, *pair.small] == [
        "1. VAE + ALU",
        under[0],
        "against 2. VAE + ALU",
        under[1],
        "under different threat models",
        "by different suites or budgets: the one attacked harder looks worse",
        "not both complete",
    ]


@pytest.mark.parametrize(("alarms", "shown"), [(0, False), (3, True)])
def test_a_precision_that_may_be_anything_is_left_out(alarms: int, shown: bool) -> None:
    result = results.result(60)
    result.clean.flagged = [image < alarms for image in range(60)]
    precision = detection_table("result-0", result).rows[0].cells[-1]
    assert (words(precision).strip() == "n too small") == (not shown)
    assert (precision.kind == "few") == (not shown)


def test_shares_of_a_handful_of_images_are_left_out() -> None:
    for count in (11, 12):
        result = few(results.result(40), count)
        assert len(result.attacks[0].answers.images) == count
        deployed = detection_table("result-0", result).rows[0].cells[0]
        assert (words(deployed).strip() == "n too small") == (count == 11)
