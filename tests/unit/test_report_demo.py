"""The demo's page: its one sentence, its table, and what is said of each picture."""

from pathlib import Path
from typing import Any

from alu.report.demo import terminal_cell, verdict, write_page
from alu.stats import Share
from tests.unit.expected import bounded, percent, whole
from tests.unit.pages import read

NAMES = ("classifier alone", "VAE, purified only", "VAE + ALU (input)")


def result(bare: str, defended: dict[str, str]) -> dict[str, Any]:
    """A result with the outcomes given as text, 1 for a correct answer."""
    same = {"clean": "11110", "decoy": "11111", "surrogate": "11111"}
    rows = dict(zip(NAMES, ({**same, "pgd": bare}, {**same, "pgd": "11111"}, {**same, **defended}), strict=True))
    return {"rows": [{"name": name, "columns": outcomes(row)} for name, row in rows.items()]}


def outcomes(row: dict[str, str]) -> dict[str, Any]:
    return {column: {"correct": [int(bit) for bit in bits], "flagged": None} for column, bits in row.items()}


def example(column: str, before: list[float], answer: int, flagged: bool) -> dict[str, Any]:
    blank = "data:image/png;base64,"
    pictures = {"adversarial": blank, "perturbation": blank, "purified": blank}
    after = [float(label == answer) for label in range(3)]
    return {
        "column": column, "true": 0, "answer": answer, "flagged": flagged, "score": 1.25, "before": before,
        "after": after, **pictures,
    }  # fmt: skip


def whole_result() -> dict[str, Any]:
    """A result with everything that the page shows."""
    shown = result("00011", {"pgd": "11011", "decoy": "01101", "surrogate": "00111"}) | {
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
    assert verdict(result("00011", {"pgd": "11011", "decoy": "01101", "surrogate": "00111"})) == (
        "Against an attacker who does not know the defence, it keeps 3 of 5 pictures correct (the bare classifier: 1); "
        "against an attacker who knows it, 1."
    )
    none = verdict(result("00000", {"pgd": "11111", "decoy": "11000", "surrogate": "00111"}))
    assert none.endswith("(the bare classifier: 0); against an attacker who knows it, 0.")


def test_every_figure_of_the_page_equals_the_result(tmp_path: Path) -> None:
    shown = whole_result()
    write_page(shown, tmp_path / "index.html")
    page = read((tmp_path / "index.html").read_text())
    expected = whole("demo/verdict/kept", 3) | whole("demo/verdict/n", 5)
    expected |= whole("demo/verdict/bare", 1) | whole("demo/verdict/informed", 1)
    for index, row in enumerate(shown["rows"]):
        for name, column in row["columns"].items():
            expected |= bounded(f"demo/{index}/{name}", Share(sum(column["correct"]), 5), n=False)
    expected |= percent("demo/2/pgd/flagged", Share(4, 5))
    expected |= {f"demo/example/{index}/score": (1.25, "1.2") for index in range(3)}
    assert page.figures == expected
    assert page.facts == {"n": "5", "eps": "8/255", "commit": "0123456789ab"}
    assert [sum(counts) for counts in page.counts] == [2, 2]
    assert verdict(shown) in page.line


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
    shown = whole_result()
    assert terminal_cell(shown["rows"][0], "pgd") == "40.0 [12, 77]"
