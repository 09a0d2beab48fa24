"""What the page shows beside the defence: the verdict, the bare classifier's own attacks, harmless changes; and what
it leaves out."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from alu.evaluation.result import Judged, Result
from alu.report import write
from alu.report.bare import first_verdicts, verdict_box
from alu.report.harmless import harmless
from alu.report.tables import paired, setting, side_by_side
from tests.unit import results
from tests.unit.pages import read


def text(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "|", html))


def cells(html: str) -> list[list[str]]:
    """The words of a table's body, row by row."""
    body = html.split("<tbody>")[1].split("</tbody>", maxsplit=1)[0]
    return [
        [" ".join(text(cell).replace("|", " ").split()) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
        for row in body.split("</tr>")[:-1]
    ]


def test_the_box_says_what_the_result_says() -> None:
    result = results.result(40)
    box = verdict_box("result-0", result)
    assert [text(row).replace("|", "") for row in re.findall(r"<li[^>]*>(.*?)</li>", box)] == (
        result.verdict.splitlines()
    )
    result.bare = None
    assert text(verdict_box("result-0", result)).lstrip("|").startswith(result.verdict.splitlines()[0])
    assert verdict_box("result-0", results.plain(20)) == ""


def test_colours_follow_the_verdict() -> None:
    result = results.result(60)
    result.clean.bare = [(label + 1) % 10 for label in result.labels]
    assert re.findall(r'<li class="(\w+)"', verdict_box("result-0", result))[-1] == "helps"
    result.clean.bare, result.clean.answer = result.labels, result.clean.bare
    assert re.findall(r'<li class="(\w+)"', verdict_box("result-0", result))[-1] == "harms"


def test_several_results_begin_with_a_verdict_each() -> None:
    shown = [results.result(40), results.plain(40), results.result(40, 1)]
    found = [text(row).replace("|", "") for row in re.findall(r"<li[^>]*>(.*?)</li>", first_verdicts(shown))]
    assert found == [f"{at + 1}. {shown[at].verdict.splitlines()[0]}" for at in (0, 2)]
    assert first_verdicts([results.plain(20), results.plain(20)]) == ""


def test_no_sentence_claims_protection_that_was_not_compared(tmp_path: Path) -> None:
    write([results.result(60)], tmp_path / "page.html")
    assert "protects" not in read((tmp_path / "page.html").read_text()).text


def test_the_classifier_alone_has_a_table(tmp_path: Path) -> None:
    result = results.result(60)
    assert result.bare is not None
    result.bare.attacks[1].judged, result.bare.attacks[1].distance = Judged(), []
    result.bare.unmet = ["no attack <without> gradients"]
    write([result], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    section = page.split('id="result-0-bare"')[1].split("<h2")[0]
    assert "the classifier without the defence" in section
    assert "It keeps at most" in section
    assert "Incomplete: no attack &lt;without&gt; gradients." in section
    assert [row[0].split()[0] for row in cells(section)] == ["pgd-20", "square"]
    assert cells(section)[1][1] == "No image was left standing when their turn came."
    result.bare.attacks[1].failed = "no gradient."
    write([result], tmp_path / "page.html")
    section = (tmp_path / "page.html").read_text().split('id="result-0-bare"')[1].split("<h2")[0]
    assert cells(section)[1][1] == "Could not run: no gradient."
    result.bare = None
    write([result], tmp_path / "page.html")
    assert 'id="result-0-bare"' not in (tmp_path / "page.html").read_text()


def test_moderate_changes_come_first_and_losses_are_marked() -> None:
    result = results.result(40)
    table = "".join(harmless("result-0", result))
    rows = cells(table)
    assert [row[0] for row in rows] == ["JPEG, quality 90", "brightness +0.1", "Strong changes", "Gaussian noise 0.2"]
    # 45 of 50 bare, 42 purified, 40 deployed: five images, ten points.
    assert [row[3].split(" [")[0] for row in rows if len(row) > 2] == [
        "80.0 % ( 10.0 points lost)", "88.0 %", "66.0 % ( 4.0 points lost)",
    ]  # fmt: skip
    assert table.count('class="marked"') == 2
    assert rows[0][1:3] == ["90.0 % [ 78.6 , 95.7 ]", "84.0 % [ 71.5 , 91.7 ]"]
    assert len(rows[0]) == 5
    assert "rejected" not in table
    rejecting = cells("".join(harmless("result-0", results.result(40, rule="abstain"))))
    assert rejecting[0][4:] == [rejecting[0][4], rejecting[0][4]], "every flagged image is rejected"


def test_two_points_are_not_marked_and_more_are() -> None:
    result = results.result(40)
    row = {**result.detection["harmless"][1], "bare": 50, "purified": 40, "n": 50}
    for right, marked in ((50, 0), (49, 0), (48, 1)):
        result.detection["harmless"] = [{**row, "right": right}]
        assert "".join(harmless("result-0", result)).count('class="marked"') == marked


def test_a_defence_without_a_detector_has_no_flags() -> None:
    result = results.result(40, rule="purified")
    result.detection.pop("detector")
    assert [row[4] for row in cells("".join(harmless("result-0", result))) if len(row) > 2] == ["–"] * 3


def test_rows_of_an_older_version_are_shown() -> None:
    result = results.result(40)
    result.detection["harmless"] = [{"change": "10 % brighter", "flagged": 3, "right": 40, "n": 50}]
    (row,) = cells("".join(harmless("result-0", result)))
    assert row[:3] == ["10 % brighter", "–", "–"]
    assert row[3].startswith("80.0 %")
    assert "harmless changes" not in str(result)
    result.detection.pop("harmless")
    assert harmless("result-0", result) == []


def test_every_row_of_a_comparison_says_under_what_it_was_measured() -> None:
    first, second = results.result(40), results.result(40)
    second.threat, second.budget = {"norm": "Linf", "eps": 2 / 255}, "full"
    under = [setting(result) for result in (first, second)]
    assert under == [
        f"Linf eps {eps}, suite adaptive, budget {budget}, n = 40"
        for eps, budget in (("8/255", "quick"), ("2/255", "full"))
    ]
    names = [row[0] for row in cells(side_by_side([first, second]))]
    assert names == [f"{at}. VAE + ALU {words}" for at, words in enumerate(under, start=1)]
    (pair,) = cells(paired([first, second]))
    assert pair[0].startswith(f"1. VAE + ALU {under[0]} against 2. VAE + ALU {under[1]} under different threat models")


@pytest.mark.parametrize(("alarms", "shown"), [(0, False), (3, True)])
def test_a_precision_that_may_be_anything_is_left_out(tmp_path: Path, alarms: int, shown: bool) -> None:
    result = results.result(60)
    result.clean.flagged = [image < alarms for image in range(60)]
    write([result], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert ('data-key="result-0/detected/0/precision' in page) == shown
    assert ("n too small</span>" in page.split("Detection at fixed")[1]) or shown


def few(result: Result, count: int) -> Result:
    """The first attack was given so many images only."""
    record = result.attacks[0]
    for name in vars(record.judged):
        setattr(record.judged, name, getattr(record.judged, name)[:count])
    record.distance = record.distance[:count]
    return result


def test_shares_of_a_handful_of_images_are_left_out(tmp_path: Path) -> None:
    for count in (11, 12):
        result = few(results.result(40), count)
        assert len(result.attacks[0].judged.images) == count
        write([result], tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert ('data-key="result-0/detected/0/now"' in page) == (count == 12)
        assert "fewer than 12 images, or a range of more than 50 points" in page
