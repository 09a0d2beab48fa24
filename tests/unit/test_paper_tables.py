"""What the paper's tables show is what the results hold: both protocols, the paper's numbers, and empty cells."""

from __future__ import annotations

import re
from typing import Any

from alu.report.paper import artefacts, findings, sweeps, table3, tables, threats
from alu.report.paper.results import Results
from alu.report.paper.said import said
from alu.report.paper.shape import Chart, Table
from tests.unit.test_claims import made


def cell(bare: str, purified: str, alu: str, everything: str = "", flagged: str = "") -> dict[str, Any]:
    reading = {"alu": alu, "all flagged": everything or alu, "flagged": flagged or "0" * len(alu)}
    return {"n": len(bare), "bare": bare, "purified": purified, "input": reading, "reconstruction": reading}


def rows(table: Any) -> dict[str, list[str]]:
    assert isinstance(table, Table)
    return {row[0]: list(row[1:]) for row in table.rows}


def test_table_one_shows_the_papers_numbers_above_ours() -> None:
    cells = {name: cell("0000", "1000", "1110", "1111", "1111") for name in tables.ATTACKS1}
    for name in ("cw-l2, c fixed", "cw-l2, c searched"):
        cells[name]["lengths"] = [0.1, 0.3, 0.7, 0.9]
    cells["clean"] = cell("1111", "1110", "1100")
    cells["clean"]["bare"] = "0111"
    cells["adaptive, input"] = {"adaptive": "1101", "unmet": ["one more"]}
    drawn, shown, strict, lengths = tables.table1(Results({"table1": made("table1", **cells)}))
    points = dict(re.findall(r'data-key="([^"]*)" data-value="([^"]*)"', drawn.html()))
    assert (points["PGD-20: + ALU"], points["PGD-20: + ALU: the paper"]) == ("0.75", "0.7")
    assert points.pop("whoever knows all of it: + ALU") == "0.75"
    assert len(points) == 30, "five attacks on three defences, the paper's and ours"
    assert isinstance(shown, Table)
    lines = [list(row) for row in shown.rows]
    assert lines[0] == ["Standard: the paper", "–", "paper 0", "paper 3", "paper 41", "paper 41", "paper 0"]
    assert lines[1][:3] == ["Standard: here", "75.0 [30.1, 95.4] n=4", "0.0 [0.0, 49.0] n=4"]
    assert lines[4][0] == "+ ALU: the paper"
    assert lines[5][1].startswith("50.0 ")
    assert lines[5][2].startswith("75.0 ")
    assert lines[6][0] == "+ ALU, if all were flagged"
    assert lines[6][2].startswith("100.0 ")
    assert rows(strict)["+ ALU"][1].startswith("50.0 "), "right clean and attacked"
    assert rows(strict)["+ ALU"][-1] == "50.0 [15.0, 85.0] n=4 INCOMPLETE (one more)", "the suite, and the table's own"
    assert [rows(strict)[name][-1] for name in ("Standard", "+ ALU, if all were flagged")] == ["–", "–"]
    assert rows(lengths)["C&W L2, c = 1"] == ["0.700", "33.3 [6.1, 79.2] n=3"], "of the three that were right clean"


def test_table_two_keeps_the_protocols_apart() -> None:
    name = "cifar10-standard/"
    cells: dict[str, Any] = {f"{name}clean": cell("1110", "1100", "1100")}
    for column in tables.COLUMNS2:
        if column != "clean":
            cells[f"{name}{column}"] = cell("0000", "0011", "0111")
    cells[f"{name}adaptive, input"] = {"adaptive": "1000"}
    result = made("table2", **cells)
    result["cells"]["cifar10-at/clean"] = {"absent": "cifar10-at has not been trained yet."}
    drawn, paper, standard = tables.table2(Results({"table2": result}))
    points = dict(re.findall(r'data-key="([^"]*)" data-value="([^"]*)"', drawn.html()))
    assert points == {
        "Standard: + ALU, PGD-20 on f(D(E)): the paper": "0.6452", "Standard: + ALU, PGD-20 on f(D(E))": "0.75",
        "Standard: alone, PGD-20 on f(D(E))": "0.0",
    }, "no union of one without that of the other"  # fmt: skip
    assert rows(paper)["Standard: the paper"][:2] == ["paper 93.85", "paper 0"]
    assert rows(paper)["+ ALU, reconstruction: the paper"] == ["paper 79.34", "–", "paper 64.52", "–", "paper 72.03"]
    assert rows(paper)["+ ALU, input reading"][1].startswith("75.0 "), "right attacked, whatever was answered clean"
    assert rows(standard)["Adversarial training"][0] == "cifar10-at has not been trained yet."
    assert rows(paper)["Adversarial training: the paper"][:2] == ["paper 88.83", "paper 48.68"]
    assert rows(paper)["Adversarial training + ALU, reconstruction: the paper"][2] == "paper 96.87"
    assert rows(paper)["Adversarial training: here"] == ["cifar10-at has not been trained yet."]
    found = rows(standard)["+ ALU, input reading"]
    assert found[0].startswith("50.0 ")
    assert found[1].startswith("25.0 "), "right clean and attacked"
    assert found[-1].startswith("0.0 "), "the one that the suite left falls to the table's own attacks"
    assert "Budget" not in standard.note
    cells[f"{name}adaptive, reconstruction"] = {"adaptive": "0100", "budget": "standard"}
    cells[f"{name}adaptive, bare"] = {"adaptive": "0000"}
    cells[f"{name}adaptive, input"] = {"adaptive": "0100", "unmet": ["no attack without gradients"]}
    drawn, _, standard = tables.table2(Results({"table2": made("table2", **cells)}))
    assert 'data-key="Standard: + ALU, every attack"' in drawn.html()
    assert 'data-key="Standard: alone, every attack"' in drawn.html()
    assert standard.note.endswith("Budget standard: Standard.")
    assert rows(standard)["+ ALU, input reading"][-1] == "25.0 [4.6, 69.9] n=4 INCOMPLETE (no attack without gradients)"


def test_fewer_hard_images_are_the_first_of_the_clean_ones() -> None:
    cells = {"clean": cell("1111", "1111", "0111"), "autoattack on f": cell("11", "11", "11")}
    shown = tables.standing({column: cells.get(column) for column in tables.COLUMNS2}, ("input", "alu"))
    assert shown[3] == "50.0 [9.5, 90.5] n=2"


def test_the_card_counts_images_that_were_right_clean() -> None:
    cells = {"input/oblivious": {"clean": "1100", "attacked": "1011"}, "input/adaptive": {"adaptive": "0002"}}
    card, _ = threats.threats(Results({"threats": made("threats", **cells)}))
    assert rows(card)["oblivious"][2].startswith("25.0 ")
    assert rows(card)["adaptive"][2].startswith("0.0 ")
    assert rows(card)["query"][2] == "not measured yet"
    assert rows(card)["surrogate"][1] == "–", "it is about the purifier, of which the bare classifier has none"


def test_table_three_names_what_is_not_built() -> None:
    cells = {f"Hedge Defense/{column}": cell("1", "1", "0") for column in ("clean", "pgd-20 on f")}
    result = made("table3", **cells)
    result["cells"]["AWP/clean"] = {"absent": "cifar10-awp has not been trained yet."}
    cells = {"Hedge Defense/adaptive": {"adaptive": "1"}, "Hedge Defense/pgd-20 through": cell("1", "0", "0")}
    result["cells"] |= made("table3", **cells)["cells"]
    unified = made("table2", **{"cifar100-unified/clean": cell("1", "1", "10")})
    drawn, shown, strict, elsewhere = table3.table3(Results({"table3": result, "table2": unified}))
    points = dict(re.findall(r'data-key="([^"]*)" data-value="([^"]*)"', drawn.html()))
    assert points == {
        "Hedge Defense: PGD-20: the paper": repr(71.43 / 100), "Hedge Defense: PGD-20": "0.0",
        "Hedge Defense: every attack": "0.0",
    }  # fmt: skip
    assert rows(strict)["Hedge Defense"][-1].startswith("0.0 "), "the table's own attacks count with the suite's"
    assert isinstance(strict, Table)
    assert "on average" not in strict.note
    draws = {"clean": [1.0, 0.9, 0.0, 0.5], "adaptive": [0.5, 0.0, 0.0, 0.5]}
    result["cells"]["Hedge Defense/adaptive"]["found"]["right draws"] = draws
    drawing = table3.table3(Results({"table3": result, "table2": unified}))[2]
    assert isinstance(drawing, Table)
    assert re.search(r"Hedge Defense, .* on average: 60\.0 \[.*n=4 right clean, and at most 25\.0 \[", drawing.note)
    assert rows(elsewhere)["ADP (Yoon 2021): the paper"] == ["paper 77.83", "paper 43.21", *["–"] * 4]
    assert rows(elsewhere)["Unified ALU: here"][0].startswith("50.0 ")
    found = rows(shown)
    assert found["Hedge Defense: here"][0].startswith("100.0 "), "its answer is the purified one"
    assert found["Hedge Defense: the paper"] == ["paper 90.63", "paper 71.43", "–", "paper 72.66", "–"]
    assert rows(strict)["Hedge Defense"][1].startswith("100.0 ")
    assert found["AWP: here"][0] == "cifar10-awp has not been trained yet."
    assert found["ADP (Yoon 2021): the paper, not built here yet"][:2] == ["paper 93.09", "paper 85.45"]


def test_times_are_ratios_within_a_repetition() -> None:
    each = {"bare": [1.0, 2.0, 1.0], "0": [3.0, 6.0, 3.0], "50": [30.0, 60.0, 33.0], "200": [60.0, 120.0, 600.0]}
    middle = {"bare": 1.0, "0": 3.0, "50": 33.0, "200": 120.0}
    found = {"n": 10, "repeats": 3, "seconds": each, "median": middle}
    (shown,) = findings.timing(Results({"timing": made("timing", seconds=found)}))
    assert rows(shown)["N = 50"][:3] == ["3300.00", "30.0 [30.0, 31.5]", "10.0 [10.0, 10.5]"]
    assert rows(shown)["N = 200"][2] == "20.0 [20.0, 110.0]"


def test_each_attack_alone() -> None:
    cells = {
        "cifar10-vae, input/clean": {"outcome": "1110"},
        "cifar10-vae, input/Pattern": {"outcome": "0010", "case 3": "1000"},
        "cifar10-vae, abstain/clean": {"outcome": "1112"},
        "cifar10-vae, abstain/Pattern": {"outcome": "0212", "case 3": "0000"},
    }
    (shown,) = findings.each_attack(Results({"each-attack": made("each-attack", **cells)}))
    assert rows(shown)["Pattern"][0].startswith("25.0 ")
    assert rows(shown)["Pattern"][1].startswith("75.0 "), "rejected counts as resisted"
    assert isinstance(shown, Table)
    assert "input 50.0" in shown.note
    assert "abstain 0.0" in shown.note
    assert "decoy" not in shown.note


def test_what_decoy_broke_was_flagged_or_not() -> None:
    cells = {
        "cifar10-vae, input/clean": {"outcome": "1110"},
        "cifar10-vae on cifar10-at, input/clean": {"outcome": "11110"},
        "cifar10-vae on cifar10-at, input/Decoy": {"outcome": "00010", "flagged": "10111"},
    }
    plain, robust = findings.each_attack(Results({"each-attack": made("each-attack", **cells)}))
    assert isinstance(plain, Table)
    assert isinstance(robust, Table)
    assert [row[0] for row in plain.rows] == ["clean"], "another system's rows are not its own"
    assert "decoy broke, flagged: input 66.7 [20.8, 93.9] n=3." in robust.note, "two of three that were right clean"


def test_all_attacks_together() -> None:
    union = {"adaptive": "0020", "clean": "1110", "unmet": [], "failed": {}}
    cells = {
        "cifar10-vae, input/clean": {"outcome": "1110"},
        "cifar10-vae, input/Decoy": {"outcome": "0010"},
        "cifar10-vae, input/pgd-20 on f": {"outcome": "1111"},
        "cifar10-vae, input/standard": union,
        "cifar10-vae, input/quick": {**union, "adaptive": "1000", "failed": {"soft": "broke"}},
        "cifar10-pca, purified/quick": {**union, "adaptive": "1100"},
    }
    (shown,) = findings.whole_suite(Results({"whole-suite": made("whole-suite", **cells)}))
    clean, oblivious, decoy, boost, standard, quick = rows(shown)["cifar10-vae, input"]
    assert (clean[:5], oblivious[:5], decoy[:5], boost) == ("75.0 ", "100.0", "25.0 ", "–")
    assert standard.startswith("0.0 "), "a rejection is no right answer"
    assert quick.startswith("25.0 ")
    assert quick.endswith("INCOMPLETE (soft failed)")
    assert rows(shown)["cifar10-pca, purified"][:5] == ["–"] * 5


def test_what_explains_the_effect_is_drawn_as_it_was_measured() -> None:
    cells: dict[str, Any] = {
        "E1 and E5": {"clean": cell("1110", "1110", "1100"), "attacked": cell("0010", "0000", "1011")},
        "E2": {"answer is the swapped label": "1110", "answer is the true label": "0001", "rank": "1598"},
        "E3": {"fitted on": 7, "linear probe": "1000", "classifier on the negative": "1100"},
        "E4/blur 1": {"clean": cell("1111", "1110", "1110"), "attacked": cell("0000", "1000", "0100")},
    }
    *drawn, listed = artefacts.artefacts(Results({"artefacts": made("artefacts", **cells)}))
    assert len(drawn) == 5
    drawings = "".join(one.html() for one in drawn)
    found = dict(re.findall(r'data-key="([^"]*)" data-value="([^"]*)"', drawings))
    assert found == {
        "clean images, ALU right": "0.5", "attacked images, ALU right": "0.75",
        "attacked, f was right clean": repr(2 / 3), "attacked, f was wrong clean": "1.0",
        "ALU answers the next class": "0.75", "ALU answers the true class": "0.25",
        "the next class, ranked last five clean": repr(2 / 3),
        "linear probe, fitted on 7 others": "0.25", "f, shown the negative on grey": "0.5",
        "blur 1: clean, ALU": "0.75", "blur 1: attacked, ALU": "0.25", "blur 1: attacked, purified only": "0.25",
        "all attacked images, ALU right": "0.75", "attacks on f that succeeded, ALU right": "0.5",
    }  # fmt: skip
    assert rows(listed)["E1 attacked, f was right clean"] == ["66.7 [20.8, 93.9] n=3"]
    assert rows(listed)["E5 attacks on f that succeeded, ALU right"][0].startswith("50.0 ")


ONE = {"purified": "1", **{reading: {"alu": "1", "all flagged": "1", "flagged": "0"} for reading in sweeps.READINGS}}
ATTACKED = ("clean", "pgd-20 on f", "pgd-20 on f(D(E))")


def test_iterations_draw_the_papers_points_in_grey() -> None:
    by = {kind: {"0": ONE, "20": ONE} for kind in ATTACKED}
    found = {"solver": "Adam", "n": 1, "cifar10-unified": by, "cifar10-at": by}
    cells = {"encoder": found, "sampled": found}
    drawn = sweeps.iterations(Results({"iterations": made("iterations", **cells)}))
    first, plain, *_ = charts = [shown for shown in drawn if isinstance(shown, Chart)]
    assert 'data-key="paper/attacked/0"' in first.html()
    assert 'data-value="0.0863"' in first.html()
    assert "paper/" not in plain.html(), "whose figures fit the reconstruction reading"
    assert 'data-key="clean, if none were flagged/0"' in plain.html()
    assert len(charts) == 6, "two of each classifier from the encoder, and two of the paper's own from elsewhere"
    assert sum("paper/" in shown.html() for shown in charts) == 2, "and on the paper's own classifier"
    assert len(drawn) - len(charts) == 8, "a table for each start, classifier and reading"


def test_all_rates_are_in_one_figure_and_each_solver_in_the_papers_axes() -> None:
    by = {kind: {"50": ONE} for kind in ATTACKED}
    found = {"n": 1, "cifar10-unified": by, "cifar10-at": by}
    cells = {f"{setting}, {rate}": found for setting in sweeps.SETTINGS for rate in ("0.0001", "1")}
    drawn = sweeps.learning_rate(Results({"learning-rate": made("learning-rate", **cells)}))
    first, _, near, *_ = charts = [shown for shown in drawn if isinstance(shown, Chart)]
    assert len(charts) == 2 + 4 + 2
    assert all(f'data-key="{setting}/1.0"' in first.html() for setting in sweeps.SETTINGS)
    assert 'data-key="paper/detected/0.0001"' in first.html()
    assert 'data-key="attacked, deployed/0.0001"' in near.html()
    assert 'data-key="attacked, deployed/1.0"' not in near.html(), "the paper's axis ends at 0.01"
    (table, *_) = (shown for shown in drawn if isinstance(shown, Table))
    assert len(rows(table)) == 8


def test_a_remark_does_not_widen_the_columns() -> None:
    shown = Table("t", ["", "a", "b"], [["one", "1", "2"], ["second", "a long sentence about nothing."]])
    assert shown.text().splitlines()[3:] == ["one     1  2", "second  a long sentence about nothing."]
    assert '<td class="over" colspan="2">a long sentence' in shown.html()


def test_a_terminal_is_told_of_empty_cells() -> None:
    result = made(
        "one-step", **{"1 outputs": {"n": 2, "rate": [1.0, -1.0], "error before": [1, 1], "error after": [0, 0]}}
    )
    result["cells"]["10 outputs"] = {"absent": "nobody measured it."}
    text = said(Results({"one-step": result}), "one-step")
    assert "50.0 [9.5, 90.5] n=2" in text
    assert "1 of 2 cells are empty: nobody measured it." in text
