"""Table 3: methods on the same images, what is not built is named, and whether unified ALU is ahead."""

from __future__ import annotations

import re
from typing import Any

import pytest

from alu import models
from alu.paper import store, table2, table3
from alu.paper.claims import FAILS, FEW, HOLDS, OBLIVIOUS
from alu.paper.store import Column, MissingCellError, Reading
from alu.paper.table3 import ADAPTIVE, OTHERS, OURS, Images, Key, outperforms
from alu.paper.workbench import Workbench
from alu.training.recipes import RECIPES
from tests.contracts.parts import small_contrastive, small_energy, small_score
from tests.paper.toys import BAD, GOOD, HALF, answers, emptied, note, points, results, rows

HEDGE = "Hedge Defense"
FULL = {"n": 2, "hard": 2, "adaptive": 2, "calibration": 200, "robust": 1}
ON_F = (Images.CLEAN, Images.PGD_ON_F, Images.PGD_THROUGH)


def test_the_rows_that_exist_and_those_that_do_not() -> None:
    cells: dict[Any, Any] = {Key(HEDGE, images): answers("1", "1", "0") for images in (Images.CLEAN, Images.PGD_ON_F)}
    cells[Key(HEDGE, Images.PGD_THROUGH)] = answers("1", "0", "0")
    cells[Key(HEDGE, ADAPTIVE)] = {"adaptive": "1"}
    cells[table2.Key("cifar100-unified", Column.CLEAN)] = answers("1", "1", "10")
    found = emptied(results(cells), Key("AWP", Images.CLEAN), "cifar10-awp has not been trained yet.")
    drawn, paper, strict, claims, elsewhere = table3.view(found)
    assert points(drawn) == {
        f"{HEDGE}: PGD-20: the paper": repr(71.43 / 100), f"{HEDGE}: PGD-20": "0.0", f"{HEDGE}: every attack": "0.0",
    }  # fmt: skip
    assert rows(strict)[HEDGE][-1].startswith("0.0 "), "the table's own attacks count with the suite's"
    assert rows(strict)[HEDGE][1].startswith("100.0 ")
    assert "average of ten draws" not in note(strict)
    assert rows(elsewhere)["ADP (Yoon 2021): the paper"] == ["paper 77.83", "paper 43.21", *["–"] * 4]
    assert rows(elsewhere)["Unified ALU: here"][0].startswith("50.0 ")
    assert rows(paper)[f"{HEDGE}: here"][0].startswith("100.0 "), "its answer is the purified one"
    assert rows(paper)[f"{HEDGE}: the paper"] == ["paper 90.63", "paper 71.43", "–", "paper 72.66", "–"]
    assert rows(paper)["AWP: here"] == ["cifar10-awp has not been trained yet."]
    assert rows(claims)["ADP (Yoon 2021)"] == ["not measured yet"]
    hedge = rows(claims)[HEDGE]
    assert hedge[1].startswith("100.0 ")
    assert hedge[2] == "AutoAttack on f: –", "the attack that its authors claim to withstand was not run here"
    assert hedge[3].startswith("0.0 ")
    assert hedge[4:] == ["paper 71.43", "72.7", "59.2"]


ADP, DIFFPURE = "ADP (Yoon 2021)", "DiffPure (Nie 2022)"


def test_every_method_of_the_paper_has_a_row_that_names_its_networks() -> None:
    assert set(store.PUBLISHED["table3"]) | set(store.PUBLISHED["claims of others"]) <= set(table3.ROWS)
    needs = {row: table3.ROWS[row][0].needs for row in table3.METHODS}
    assert needs == {
        table3.SOAP_BASE: ("cifar10-soap",), "SOAP (Shi 2021)": ("cifar10-soap",),
        "Reverse attack (Mao 2021)": ("cifar10-at", "cifar10-contrastive"), ADP: ("cifar10-standard", "cifar10-score"),
        "Long-run EBM (Hill 2021)": ("cifar10-standard", "cifar10-energy"),
        DIFFPURE: ("cifar10-standard", "cifar10-score"),
    }  # fmt: skip
    assert {name for names in needs.values() for name in names} <= set(RECIPES)
    full, quick = ([str(cell.key) for cell in table3.cells(sizes)] for sizes in (FULL, {**FULL, "robust": 0}))
    assert f"{DIFFPURE}/apgd-20 through" in full
    assert not any(key.startswith(ADP) for key in quick)
    for row, known in store.PUBLISHED["claims of others"].items():
        assert Images(known["under"]) in table3.columns_of(row), "the attack that is claimed to be withstood is run"


def test_the_attack_that_a_method_claims_to_withstand_counts_in_what_is_left() -> None:
    cells: dict[Any, Any] = {Key(DIFFPURE, images): {"bare": "00", "purified": "11"} for images in ON_F}
    cells[Key(DIFFPURE, Images.APGD_THROUGH)] = {"bare": "00", "purified": "01"}
    cells[Key(DIFFPURE, ADAPTIVE)] = {"adaptive": "11", "unmet": ["no gradient"]}
    _, _, strict, claims, _ = table3.view(results(cells))
    assert rows(strict)[DIFFPURE][-1].startswith("50.0 ")
    row = rows(claims)[DIFFPURE]
    assert row[2].startswith("APGD-20 through the purifier: 50.0 ")
    assert row[3].startswith("50.0 ")
    assert row[3].endswith("INCOMPLETE (no gradient)")
    assert row[4:] == ["–", "70.6", "22.7"]


def test_a_random_method_is_shown_over_its_draws_too() -> None:
    draws = {"clean": [1.0, 0.9, 0.0, 0.5], "adaptive": [0.5, 0.0, 0.0, 0.5]}
    union = {"adaptive": "1000", "right draws": draws}
    strict = table3.view(results({Key(HEDGE, ADAPTIVE): union}))[2]
    assert re.search(r"Hedge Defense, average .*: 60\.0 \[.*n=4 right clean, and at most 25\.0 \[", note(strict))


def status(own: str, left: str, theirs: str, missing: str = "") -> str:
    cells: dict[Any, Any] = {}
    for row in (*OURS.values(), *OTHERS):
        easy, union = (own, left) if row in OURS.values() else (HALF, theirs)
        cells[Key(row, Images.PGD_ON_F)] = answers(easy, easy, easy)
        if row != missing:
            cells[Key(row, ADAPTIVE)] = {"adaptive": union}
    return outperforms(results(cells)).status


def test_other_methods_are_compared_on_the_same_images() -> None:
    assert status(GOOD, BAD, BAD) == OBLIVIOUS
    assert status(GOOD, GOOD, BAD) == HOLDS
    assert status(GOOD, BAD, HALF) == OBLIVIOUS
    assert status(GOOD, "1" * 43 + "0" * 57, HALF) == FEW, "a lead of three may be chance"
    assert status(HALF, BAD, HALF) == FEW
    assert status(BAD, BAD, HALF) == FAILS
    assert status(GOOD, BAD, HALF, missing="AWP") == OBLIVIOUS, "the others settle it"
    assert status(GOOD, GOOD, BAD, missing="AWP") == FEW, "one comparison is open"
    with pytest.raises(MissingCellError):
        status(GOOD, GOOD, BAD, missing="Unified ALU")


@pytest.mark.parametrize("row", ["Anti-Adversary", "Adversarial training alone", "Blur + ALU"])
def test_attacks_through_the_purifier_run_on_every_kind_of_it(row: str) -> None:
    bench = Workbench(FULL)
    on_f, through = (table3.measure(bench, Key(row, images)) for images in (Images.PGD_ON_F, Images.PGD_THROUGH))
    assert on_f["n"] == through["n"] == 2
    if row == "Adversarial training alone":
        assert on_f == through, "through nothing is on f"


NETWORKS: dict[str, Any] = {
    "SOAP (Shi 2021)": None, "Reverse attack (Mao 2021)": lambda: small_contrastive((3, 32, 32)),
    ADP: lambda: small_score((3, 32, 32)), "Long-run EBM (Hill 2021)": lambda: small_energy((3, 32, 32)),
    DIFFPURE: lambda: small_score((3, 32, 32)),
}  # fmt: skip


@pytest.mark.parametrize("row", list(NETWORKS))
def test_cells_of_methods_run_on_networks_that_are_not_trained_yet(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, make = models.load, NETWORKS[row]
    known = models.names()
    stand_in = make() if make else None

    def load(name: str) -> Any:
        return stand_in if name not in known and stand_in is not None else real(name.replace("-soap", "-standard"))

    monkeypatch.setattr(models, "load", load)
    monkeypatch.setattr(models, "names", lambda task=None: [*known, *table3.ROWS[row][0].needs])
    bench = Workbench(FULL)
    shorten(bench, row)
    aimed_at: dict[str, Any] = {}
    attacked = bench.attacked
    monkeypatch.setattr(
        bench,
        "attacked",
        lambda name, some, attack, model: aimed_at.update({name: model}) or attacked(name, some, attack, model),
    )
    for images in table3.columns_of(row):
        if images is not Images.AUTOATTACK_ON_F:
            measured = table3.measure(bench, Key(row, images))
            assert (measured["n"], len(measured["bare"]), len(measured["purified"])) == (2, 2, 2)
            assert set(measured) == {"n", "bare", "purified"}, "nothing is calibrated for a method without a detector"
    system, deployed = table3.ROWS[row][0], bench.defense(table3.ROWS[row][0], Reading.PURIFIED)
    through = aimed_at.get(f"pgd-20 through, {system.purifier} of {system.classifier}")
    if row in ("SOAP (Shi 2021)", "Reverse attack (Mao 2021)"):
        assert through.grad_mode == "bpda", "they have no stand-in but the image"
    elif through is not None:
        assert through is not deployed
        assert not hasattr(through, "grad_mode"), "one pass of the denoiser"
    every = aimed_at.get(f"apgd-20 through, {system.purifier} of {system.classifier}")
    assert (every is deployed) == (row == DIFFPURE), "the gradient of every step"
    assert deployed.grad_mode == "unrolled"


def shorten(bench: Workbench, row: str) -> None:
    """Fewer steps, as a test can wait for."""
    purifier = bench.purifier(table3.ROWS[row][0])
    purifier.steps, purifier.draws = 2, min(2, purifier.draws)  # type: ignore[attr-defined]
