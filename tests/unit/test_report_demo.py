"""The demo's page: its verdict, its table, and what is said of each picture."""

from pathlib import Path
from typing import Any

import pytest

from alu.cli.demo import _print
from alu.report.demo import terminal_cell, terminal_title, verdict, write_page
from alu.stats import Share
from tests.unit.expected import bounded, percent, whole
from tests.unit.pages import read


def result(bare: str, defended: dict[str, str], certificate: bool = True) -> dict[str, Any]:
    """A result with the outcomes given as text, 1 for a correct answer."""
    same = {"clean": "11110", "decoy": "11111", "surrogate": "11111", "everything": "11110"}
    rows = {
        "classifier alone": {**same, "pgd": bare},
        "VAE + ALU (reconstruction)": {**same, "pgd": "11111"},
        "VAE + ALU (input)": {**same, **defended},
        "robust classifier alone": {"clean": "11110", "pgd": "00110", "everything": "00010"},
        "robust classifier + check": {"clean": "01110", "pgd": "00000", "everything": "01100"},
    }
    made = [{"name": name, "columns": outcomes(row)} for name, row in rows.items()]
    made[4]["columns"]["clean"]["answered"] = bits("01111")
    made[4]["columns"]["pgd"]["answered"] = bits("10000")
    if certificate:
        proof = outcomes({"clean": "10100", "everything": "10100"})
        proof["clean"]["answered"], proof["everything"]["proven"] = bits("10110"), 0.5
        made.append({"name": "certificate", "columns": proof})
    return {"rows": made}


def outcomes(row: dict[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        column: {"correct": bits(text), "flagged": None, "answered": None} for column, text in row.items()
    }
    made["everything"]["proven"] = None
    return made


def bits(text: str) -> list[int]:
    return [int(bit) for bit in text]


DEFENDED = {"pgd": "11011", "decoy": "01101", "surrogate": "00111", "everything": "00100"}


def example(column: str, before: list[float], answer: int, flagged: bool) -> dict[str, Any]:
    blank = "data:image/png;base64,"
    pictures = {"adversarial": blank, "perturbation": blank, "purified": blank}
    after = [float(label == answer) for label in range(3)]
    return {
        "column": column, "true": 0, "answer": answer, "flagged": flagged, "score": 1.25, "before": before,
        "after": after, **pictures,
    }  # fmt: skip


def whole_result(certificate: bool = True) -> dict[str, Any]:
    """A result with everything that the page shows."""
    shown = result("00011", DEFENDED, certificate) | {
        "classes": ["airplane", "cat", "<b>"], "scores": {"clean": [1.0, 2.0], "pgd": [8.0, 9.0]}, "threshold": 3.0,
        "setting": {"n": 5, "eps": "8/255", "commit": "0123456789ab"},
        "examples": [
            example("clean", [3.0, 1.0, 0.0], 0, False),
            example("pgd", [1.0, 4.0, 0.0], 0, True),
            example("decoy", [1.0, 0.0, 0.5], 2, True),
        ],
    }  # fmt: skip
    shown["rows"][2]["columns"]["pgd"]["flagged"] = [1, 1, 1, 1, 0]
    return shown


def test_the_verdict_counts_what_is_correct_clean_and_under_every_attack_of_its_kind() -> None:
    assert verdict(result("00011", DEFENDED)) == (
        "Against an attacker who does not know the defence, it keeps 3 of 5 pictures correct (the bare classifier: 1); "
        "against an attacker who knows everything, 1. Of a robust classifier behind a check, even that attacker leaves "
        "2 pictures that are right and never answered wrongly (without the check: 1)."
    )
    none = verdict(result("00000", {**DEFENDED, "pgd": "11111", "everything": "00000"}))
    assert (
        "keeps 4 of 5 pictures correct (the bare classifier: 0); against an attacker who knows everything, 0." in none
    )


def test_every_figure_of_the_page_equals_the_result(tmp_path: Path) -> None:
    shown = whole_result()
    write_page(shown, tmp_path / "index.html")
    page = read((tmp_path / "index.html").read_text())
    expected = whole("demo/verdict/kept", 3) | whole("demo/verdict/n", 5)
    expected |= whole("demo/verdict/bare", 1) | whole("demo/verdict/informed", 1)
    expected |= whole("demo/verdict/checked", 2) | whole("demo/verdict/robust", 1)
    for index, row in enumerate(shown["rows"]):
        for name, column in row["columns"].items():
            expected |= bounded(f"demo/{index}/{name}", Share(sum(column["correct"]), 5), n=False)
    expected |= percent("demo/2/pgd/flagged", Share(4, 5)) | percent("demo/4/clean/answered", Share(4, 5))
    expected |= percent("demo/4/pgd/answered", Share(1, 5)) | percent("demo/5/clean/answered", Share(3, 5))
    expected["demo/5/everything/proven"] = (0.5, "0.5")
    expected |= {f"demo/example/{index}/score": (1.25, "1.2") for index in range(3)}
    assert page.figures == expected
    assert page.facts == {"n": "5", "eps": "8/255", "commit": "0123456789ab"}
    assert [sum(counts) for counts in page.counts] == [2, 2]
    assert verdict(shown) in page.line
    assert "that no attack made for this very row turns into a wrong answer" in page.line
    assert "proven within L2 0.5, not L∞" in page.line


def test_a_page_without_a_certificate_does_not_speak_of_one(tmp_path: Path) -> None:
    for certificate in (True, False):
        write_page(whole_result(certificate), tmp_path / "index.html")
        page = read((tmp_path / "index.html").read_text())
        assert ("certificate" in page.line) is certificate


def test_each_picture_says_what_both_answer(tmp_path: Path) -> None:
    write_page(whole_result(), tmp_path / "index.html")
    page = (tmp_path / "index.html").read_text()
    correct, wrong, odd = (
        f'<span class="{kind}">{name}</span>'
        for kind, name in (("high", "airplane"), ("low", "cat"), ("low", "&lt;b&gt;"))
    )
    assert page.count("<h3>An airplane</h3>") == 1
    score = '<span class="figure" data-key="demo/example/{}/score" data-value="1.25">1.2</span>'
    sentences = [part.split("</p>")[0] for part in page.split("<br>Bare classifier: ")[1:]]
    assert sentences == [
        f"{correct}, defence: {correct} (not flagged, score {score.format(0)})",
        f"{wrong}, defence: {correct} (flagged, score {score.format(1)})",
        f"{correct}, defence: {odd} (flagged, score {score.format(2)})",
    ]


def test_the_terminal_shows_percent_with_the_interval_in_whole_points() -> None:
    rows = whole_result()["rows"]
    assert terminal_cell(rows[0], "pgd") == "40.0\n[12, 77]"
    assert terminal_cell(rows[3], "decoy") == "–"
    assert terminal_cell(rows[5], "everything") == "40.0\n[12, 77]\nL2, 0.5"
    assert terminal_title(rows[0]) == "bare classifier"
    assert terminal_title(rows[4]) == "robust classifier + check\nanswers 80.0"


@pytest.mark.parametrize("certificate", [True, False])
def test_the_table_fits_80_columns_and_breaks_no_word(
    certificate: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _print(whole_result(certificate))
    printed = capsys.readouterr().out
    assert max(len(line) for line in printed.splitlines()) <= 80
    for whole_word in ("(reconstruction)", "everything ┃", "[12, 77]", "answers 80.0", "through"):
        assert whole_word in printed
    assert ("is a proof" in printed) is certificate
    assert verdict(whole_result(certificate)) in " ".join(printed.split())
