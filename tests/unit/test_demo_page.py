"""The demo's page: its one sentence, and what is said of each picture."""

from typing import Any

from alu.report.demo import verdict, write_page

NAMES = ("classifier alone", "VAE, purified only", "VAE + ALU (input)")


def result(alone: str, defended: dict[str, str]) -> dict[str, Any]:
    """A result with the outcomes given as text, 1 for a right answer."""
    same = {"clean": "11110", "decoy": "11111", "surrogate": "11111"}
    rows = dict(zip(NAMES, ({**same, "pgd": alone}, {**same, "pgd": "11111"}, {**same, **defended}), strict=True))
    return {"rows": [{"name": name, "columns": outcomes(row)} for name, row in rows.items()]}


def outcomes(row: dict[str, str]) -> dict[str, Any]:
    return {column: {"correct": [int(bit) for bit in bits], "flagged": None} for column, bits in row.items()}


def test_the_verdict_counts_what_is_right_clean_and_under_every_attack_of_its_kind() -> None:
    assert verdict(result("00011", {"pgd": "11011", "decoy": "01101", "surrogate": "00111"})) == (
        "Against an attacker who does not know it, the defence keeps 3 of 5 pictures right where the classifier alone "
        "keeps 1; against one who does, it keeps 1."
    )
    none = verdict(result("00000", {"pgd": "11111", "decoy": "11000", "surrogate": "00111"}))
    assert none.endswith("the classifier alone keeps 0; against one who does, it keeps 0.")


def example(column: str, before: list[float], answer: int, flagged: bool) -> dict[str, Any]:
    blank = "data:image/png;base64,"
    pictures = {"image": blank, "perturbation": blank, "purified": blank}
    after = [float(label == answer) for label in range(3)]
    return {
        "column": column, "true": 0, "answer": answer, "flagged": flagged, "score": 1.25, "before": before,
        "after": after, **pictures,
    }  # fmt: skip


def test_each_picture_says_what_both_answer(tmp_path: Any) -> None:
    found = result("00011", {"pgd": "11011", "decoy": "01101", "surrogate": "00111"}) | {
        "classes": ["airplane", "cat", "<b>"], "scores": {"clean": [1.0, 2.0], "pgd": [8.0, 9.0]}, "threshold": 3.0,
        "setting": {"n": 5, "eps": "8/255"},
        "examples": [
            example("clean", [3.0, 1.0, 0.0], 0, False),
            example("pgd", [1.0, 4.0, 0.0], 0, True),
            example("decoy", [1.0, 0.0, 0.5], 2, True),
        ],
    }  # fmt: skip
    write_page(found, tmp_path / "index.html")
    page = (tmp_path / "index.html").read_text()
    right, wrong, odd = (
        f'<span class="{mood}">{name}</span>'
        for mood, name in (("high", "airplane"), ("low", "cat"), ("low", "&lt;b&gt;"))
    )
    assert page.count("<h3>An airplane</h3>") == 1
    said = [part.split("</p>")[0] for part in page.split("<br>Classifier alone: ")[1:]]
    assert said == [
        f"{right}, defence: {right} (not flagged, score 1.2)",
        f"{wrong}, defence: {right} (flagged, score 1.2)",
        f"{right}, defence: {odd} (flagged, score 1.2)",
    ]
