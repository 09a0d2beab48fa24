"""Verdicts on the paper's claims from results made by hand: each kind of verdict is reached, and none is typed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from alu.report.paper import judging
from alu.report.paper.claims import CLAIMS, judged, markdown
from alu.report.paper.judges import answers, attackers, changes, methods, scores, steps
from alu.report.paper.judging import FAILS, FEW, HOLDS, OBLIVIOUS, UNKNOWN
from alu.report.paper.page import html
from alu.report.paper.results import MissingCellError, Results
from alu.report.paper.writing import summary
from alu.stats import Share
from tests.conftest import ROOT


def made(experiment: str, **cells: Any) -> dict[str, Any]:
    known = {key: {"found": value, "commit": "abc"} for key, value in cells.items()}
    return {"experiment": experiment, "title": "Toy", "quick": False, "sizes": {"n": 3}, "seed": 0, "why": "Toy.",
            "cells": known}  # fmt: skip


def results(**experiments: dict[str, Any]) -> Results:
    return Results({name.replace("_", "-"): made(name, **cells) for name, cells in experiments.items()})


def both_readings(values: list[float]) -> dict[str, Any]:
    return {"input": values, "reconstruction": values}


def histogram(test: list[float], on_f: list[float], through: list[float], hard: list[float]) -> Results:
    # Both thresholds are 5: the scores of training and held-out images are 0 but for a few fives at the end.
    calm = both_readings([0.0] * 970 + [5.0] * 30)
    cells = {
        "train": calm, "calibration": calm, "clean": both_readings(test), "pgd-20 on f": both_readings(on_f),
        "pgd-20 on f(D(E))": both_readings(through), "autoattack on f": both_readings(hard),
        "autoattack on f(D(E))": both_readings(hard),
    }  # fmt: skip
    stealth = {"cifar10-vae, abstain/Stealth": {"outcome": "0" * 100}}
    found = results(histogram=cells)
    found.experiments["each-attack"] = made("each-attack", **stealth)
    return found


LOW, HIGH = [1.0] * 400, [9.0] * 400
SOME = [*LOW[:352], *HIGH[:48]]


def test_thresholds_are_those_of_the_scores() -> None:
    found = histogram(LOW, LOW, LOW, LOW)
    assert found.threshold("input", "train") == found.threshold("input", "held out") == 5.0
    cells = {"train": both_readings([float(value) for value in range(201)]),
             "calibration": both_readings([float(value) for value in range(399)])}  # fmt: skip
    found = results(histogram=cells)
    assert found.threshold("input", "train") == pytest.approx(199.0), "the 99.5 % quantile of 0..200"
    # 399 images at 0.5 %: p = (1 + those at least as high) / 400 allows one as high: the second highest is not flagged.
    assert found.threshold("input", "held out") == 397.0


def test_what_holds_in_one_reading_only_says_so() -> None:
    found = histogram(LOW, HIGH, HIGH, HIGH)
    for kind in ("pgd-20 on f", "autoattack on f"):
        found.experiments["histogram"]["cells"][kind]["found"]["reconstruction"] = LOW
    for judge, verdict in ((scores.separable, HOLDS), (scores.survives_autoattack, OBLIVIOUS)):
        told = judge(found)
        assert told.verdict == verdict
        assert told.evidence.startswith("In the input reading only. ")


@pytest.mark.parametrize(
    ("judge", "found", "verdict"),
    [
        (scores.overlap, histogram(LOW, HIGH, HIGH, HIGH), HOLDS),
        (scores.overlap, histogram(SOME, HIGH, HIGH, HIGH), FAILS),
        (scores.overlap, histogram([*LOW[:394], *HIGH[:6]], HIGH, HIGH, HIGH), FEW),
        (scores.separable, histogram(LOW, HIGH, HIGH, HIGH), HOLDS),
        (scores.separable, histogram(LOW, HIGH, LOW, HIGH), OBLIVIOUS),
        (scores.separable, histogram(LOW, LOW, LOW, HIGH), FAILS),
        (scores.survives_autoattack, histogram(LOW, HIGH, HIGH, LOW), FAILS),
        (scores.survives_autoattack, histogram(LOW, HIGH, HIGH, HIGH), OBLIVIOUS),
    ],
)
def test_scores(judge: Any, found: Results, verdict: str) -> None:
    assert judge(found).verdict == verdict


def changed(falls: str, others: float) -> Results:
    cell = {"true falls most": falls, "others, mean size": [others] * 4, "true": [-10.0] * 4}
    return results(logit_change={f"cifar10-standard/{name}": cell for name in ("pgd-20", "cw-linf", "autoattack")})


def test_logit_changes() -> None:
    assert changes.true_falls(changed("1" * 400, 1.0)).verdict == HOLDS
    assert changes.true_falls(changed("1" * 300 + "0" * 100, 1.0)).verdict == FAILS
    assert changes.true_falls(changed("1" * 95 + "0" * 5, 1.0)).verdict == FEW
    assert changes.others_stay(changed("1", 1.0)).verdict == HOLDS
    assert changes.others_stay(changed("1", 4.0)).verdict == FAILS


def test_what_holds_on_one_classifier_only_says_so() -> None:
    found, robust = changed("1" * 400, 1.0), changed("1" * 260 + "0" * 140, 4.0)
    for key, record in robust.experiments["logit-change"]["cells"].items():
        found.experiments["logit-change"]["cells"][key.replace("standard", "at")] = record
    for judge in (changes.true_falls, changes.others_stay):
        told = judge(found)
        assert told.verdict == HOLDS
        assert told.figures[0] == "On cifar10-standard only"
        assert "cifar10-at, " in told.evidence
    assert ": 2 hold (2 on one classifier only); " in summary(found)


def test_evidence_is_figures_and_a_rule() -> None:
    told = judging.Verdict(HOLDS, "In the input reading only. a: 1.5 % n=2; b: 2.0 %. To hold: 1 %; more. INCOMPLETE")
    assert told.figures == ["In the input reading only", "a: 1.5 % n=2", "b: 2.0 %"]
    assert told.rule == "To hold: 1 %; more. INCOMPLETE"
    missing = judging.Verdict(UNKNOWN, "What is missing: table2.")
    assert (missing.figures, missing.rule) == (["What is missing: table2"], "")
    for claim, verdict in judged(Results.open(ROOT / "results")).values():
        assert verdict.verdict == UNKNOWN or verdict.rule.startswith("To hold"), claim.name
        assert all(verdict.figures)


def test_bounds_and_comparisons_have_three_answers() -> None:
    assert [judging.at_least(Share(count, 100), 0.9) for count in (100, 99, 90, 70)] == [True, True, None, False]
    assert [judging.at_most(Share(count, 100), 0.1) for count in (0, 1, 10, 30)] == [True, True, None, False]
    assert judging.at_most(Share(0, 5), 0.02) is None, "none of five is not yet at most 2 %"
    assert judging.at_least(Share(5, 5), 0.98) is None
    assert judging.better("1" * 20, "0" * 20) is True
    assert judging.better("0" * 20, "1" * 20) is False
    assert judging.better("1" * 20, "1" * 19 + "0") is None


def stepped(near: str, far: str, flagged: str = "1" * 100) -> Results:
    rows = {
        count: {"reconstruction": {"all flagged": digits, "alu": digits, "flagged": flagged}}
        for count, digits in {"50": near, "200": far}.items()
    }
    return results(iterations={"encoder": {"solver": "Adam", steps.PAPERS: {"pgd-20 on f(D(E))": rows}}})


def test_fifty_steps() -> None:
    assert steps.fifty(stepped("1" * 98 + "0" * 2, "1" * 98 + "0" * 2)).verdict == HOLDS
    assert steps.fifty(stepped("1" * 70 + "0" * 30, "1" * 90 + "0" * 10)).verdict == FAILS
    assert steps.fifty(stepped("1" * 70 + "0" * 30, "1" * 65 + "0" * 5 + "1" * 12 + "0" * 18)).verdict == FEW, (
        "seven points gained is more than three, if not surely"
    )
    assert steps.fifty(stepped("0" * 90 + "1" * 10, "0" * 90 + "1" * 10)).verdict == FAILS, "chance has converged too"
    unseen = steps.fifty(stepped("1" * 98 + "0" * 2, "1" * 98 + "0" * 2, "1" * 13 + "0" * 87))
    assert unseen.verdict == FAILS, "the paper promises the detection rate too"
    assert "flagged: N = 50 13.0" in unseen.evidence


def rates(small: str, large: str) -> Results:
    cells = {}
    for setting in ("gd, sse", "gd, mse", "gd, norm", "adam, sse"):
        for rate, digits in (("1e-05", "0" * 100), ("0.0001", small), ("0.01", large)):
            row = {"100": {"reconstruction": {"all flagged": digits, "alu": digits}}}
            cells[f"{setting}, {rate}"] = {steps.PAPERS: {"pgd-20 on f(D(E))": row}}
    return Results({"learning-rate": made("learning-rate", **cells)})


def test_small_rates() -> None:
    assert steps.small_rate(rates("1" * 100, "0" * 100)).verdict == HOLDS
    worse = steps.small_rate(rates("0" * 100, "1" * 100))
    assert worse.verdict == FAILS
    assert "best 100.0 [96.3, 100.0] n=100 at 0.01" in worse.evidence
    assert steps.small_rate(rates("1" * 75 + "0" * 25, "1" * 55 + "0" * 21 + "1" * 24)).verdict == FEW
    chance = steps.small_rate(rates("1" * 10 + "0" * 90, "1" * 10 + "0" * 90))
    assert chance.verdict == FAILS
    assert chance.evidence.count("not above chance") == 8


def informed(found: Results, decoy: str, reconstruction: str = "") -> Results:
    """The same under attackers who know more, in both readings or with another outcome of decoy in the second."""
    cells = {}
    for reading, told in (("input", decoy), ("reconstruction", reconstruction or decoy)):
        cells[f"cifar10-vae, {reading}/clean"] = {"outcome": "10" * (len(decoy) // 2)}
        cells[f"cifar10-vae, {reading}/Decoy"] = {"outcome": told}
    found.experiments["each-attack"] = made("each-attack", **cells)
    surrogate = {f"{reading}/surrogate": {"attacked": "0" * 20} for reading in ("input", "reconstruction")}
    found.experiments["threats"] = made("threats", **surrogate)
    return found


def test_more_right_under_attack_than_clean_is_for_the_oblivious_only() -> None:
    clean = {"bare": "10" * 10, **{reading: {"alu": "10" * 10} for reading in ("input", "reconstruction")}}
    attacked = {"bare": "00" * 10, **{reading: {"alu": "11" * 10} for reading in ("input", "reconstruction")}}
    told = {"answer is the swapped label": "1" * 90 + "0" * 10, "rank": "8" * 100}
    found = results(artefacts={"E1 and E5": {"clean": clean, "attacked": attacked}, "E2": told})
    assert answers.above_clean(informed(found, "0" * 20)).verdict == OBLIVIOUS
    assert answers.above_clean(informed(found, "1" * 20)).verdict == HOLDS
    split = answers.above_clean(informed(found, "0" * 20, "1" * 20))
    assert split.verdict == HOLDS
    assert split.evidence.startswith("In the reconstruction reading only. Paper protocol")
    assert answers.hard_samples(found).verdict == FAILS, "it follows a label that is not there"
    told = found.experiments["artefacts"]["cells"]["E2"]["found"]
    told["answer is the swapped label"] = "0" * 100
    assert answers.hard_samples(found).verdict == HOLDS
    told |= {"answer is the swapped label": "1" * 50 + "0" * 50, "rank": "1" * 50 + "9" * 50}
    assert answers.hard_samples(found).verdict == HOLDS, "only likely confusions are followed"
    del told["rank"]
    assert judged(found)["hard samples explain adversarial > clean"][1].verdict == UNKNOWN


def rows(alu: str, bare: str, union: str, bare_union: str = "0" * 100) -> dict[str, Any]:
    both = {reading: {"alu": alu} for reading in ("input", "reconstruction")}
    cells: dict[str, Any] = {}
    for column in ("clean", "pgd-20 on f", "pgd-20 on f(D(E))", "autoattack on f", "autoattack on f(D(E))"):
        cells[column] = {"bare": bare, **both}
    for reading in ("input", "reconstruction"):
        cells[f"adaptive, {reading}"] = {"adaptive": union}
    cells["adaptive, bare"] = {"adaptive": bare_union}
    return cells


def table2(**classifiers: dict[str, Any]) -> Results:
    cells = {f"cifar10-{name}/{key}": value for name, found in classifiers.items() for key, value in found.items()}
    return Results({"table2": made("table2", **cells)})


GOOD, BAD, HALF = "1" * 100, "0" * 100, "1" * 40 + "0" * 60


def test_a_union_counts_the_tables_own_attacks_too() -> None:
    found = table2(standard=rows(HALF, BAD, GOOD))
    assert found.standing("cifar10-standard", "input") == HALF
    assert found.standing("cifar10-standard", "bare") == BAD


def test_table_two() -> None:
    assert answers.several_attacks(table2(standard=rows(GOOD, BAD, BAD))).verdict == OBLIVIOUS
    assert answers.several_attacks(table2(standard=rows(GOOD, BAD, HALF))).verdict == OBLIVIOUS
    assert answers.several_attacks(table2(standard=rows(GOOD, BAD, GOOD))).verdict == HOLDS
    assert answers.several_attacks(table2(standard=rows(HALF, BAD, HALF))).verdict == FAILS
    plain = rows(HALF, BAD, BAD)
    assert answers.unified_better(table2(unified=rows(GOOD, BAD, BAD), standard=plain)).verdict == OBLIVIOUS
    assert answers.unified_better(table2(unified=rows(GOOD, BAD, HALF), standard=plain)).verdict == HOLDS
    assert answers.unified_better(table2(unified=plain, standard=rows(GOOD, BAD, BAD))).verdict == FAILS
    assert answers.unified_better(table2(unified=plain, standard=plain)).verdict == FEW
    nothing = rows(BAD, BAD, BAD)
    assert answers.unified_better(table2(unified=nothing, standard=nothing)).verdict == FAILS, "nothing leads nothing"
    split = rows(GOOD, BAD, BAD)
    for cell in split.values():
        if "reconstruction" in cell:
            cell["reconstruction"] = {"alu": BAD}
    told = answers.unified_better(table2(unified=split, standard=plain))
    assert told.verdict == OBLIVIOUS
    assert told.figures[0] == "In the input reading only"


def test_a_denoiser_and_what_alu_adds() -> None:
    def told(alu: str, denoised: str, union: str, l2: str = "", **more: Any) -> str:
        names = ("pgd-20", "cw-linf", "cw-l2, c fixed", "autoattack")
        cells: dict[str, Any] = {name: {"input": {"alu": alu}, "purified": denoised} for name in names}
        cells["cw-l2, c fixed"] = {"input": {"alu": l2 or alu}, "purified": denoised}
        cells |= {"adaptive, input": {"adaptive": union, **more}, "adaptive, purified": {"adaptive": BAD}}
        return answers.adds_to_denoiser(Results({"table1": made("table1", **cells)})).verdict

    assert told(GOOD, HALF, BAD) == OBLIVIOUS
    assert told(GOOD, HALF, HALF) == HOLDS
    assert told(GOOD, HALF, "2" * 100) == OBLIVIOUS, "a rejection is no right answer"
    assert told(GOOD, HALF, HALF, unmet=["one more"]) == FEW
    assert told(HALF, HALF, BAD) == FEW
    assert told(BAD, HALF, BAD) == FAILS
    assert told(GOOD, HALF, BAD, l2=BAD) == OBLIVIOUS, "L2 is outside the threat model"


def test_other_methods_are_compared_on_the_same_images() -> None:
    def told(own: str, left: str, theirs: str, missing: str = "") -> str:
        cells: dict[str, Any] = {}
        for row in (*methods.OURS.values(), *methods.OTHERS):
            easy, union = (own, left) if row in methods.OURS.values() else (HALF, theirs)
            both = {reading: {"alu": easy} for reading in methods.OURS}
            cells[f"{row}/pgd-20 on f"] = {**both, "purified": easy}
            if row != missing:
                cells[f"{row}/adaptive"] = {"adaptive": union}
        return methods.outperforms(Results({"table3": made("table3", **cells)})).verdict

    assert told(GOOD, BAD, BAD) == OBLIVIOUS
    assert told(GOOD, GOOD, BAD) == HOLDS
    assert told(GOOD, BAD, HALF) == OBLIVIOUS
    assert told(GOOD, "1" * 43 + "0" * 57, HALF) == FEW, "a lead of three may be chance"
    assert told(HALF, BAD, HALF) == FEW
    assert told(BAD, BAD, HALF) == FAILS
    assert told(GOOD, BAD, HALF, missing="AWP") == OBLIVIOUS, "the others settle it"
    assert told(GOOD, GOOD, BAD, missing="AWP") == FEW, "one comparison is open"
    with pytest.raises(MissingCellError):
        told(GOOD, GOOD, BAD, missing="Unified ALU")


def test_help_for_robust_classifiers_is_ten_points_on_each_of_them() -> None:
    little, some = "1" * 43 + "0" * 57, "1" * 52 + "0" * 48
    for alu, union, verdict in (
        (HALF, BAD, FAILS), (little, BAD, FAILS), (some, BAD, FEW), (GOOD, BAD, OBLIVIOUS), (GOOD, GOOD, HOLDS),
    ):  # fmt: skip
        assert answers.helps_robust(table2(at=rows(alu, HALF, union, HALF))).verdict == verdict
    helped = rows(GOOD, HALF, GOOD, HALF)
    told = answers.helps_robust(table2(at=helped, mart=rows(HALF, HALF, BAD, HALF)))
    assert told.verdict == FAILS, "one that is not helped is one too many"
    assert "cifar10-mart, PGD-20 on f: bare 40.0" in told.evidence
    assert judged(table2(mart=helped))["ALU helps adversarially trained classifiers too"][1].verdict == UNKNOWN


def test_a_row_that_lacks_an_attack_of_the_table_is_not_every_attack() -> None:
    found = table2(at=rows(GOOD, HALF, GOOD, HALF))
    assert found.unfinished("cifar10-at", "input") == ""
    del found.experiments["table2"]["cells"]["cifar10-at/autoattack on f(D(E))"]
    assert found.unfinished("cifar10-at", "input") == " INCOMPLETE (autoattack on f(D(E)) not run)"
    assert found.unfinished("cifar10-at", "bare") == "", "which has nothing to be attacked through"
    assert answers.helps_robust(found).verdict == FEW


def test_a_union_that_lacks_an_attack_proves_nothing() -> None:
    for judge, found in (
        (answers.several_attacks, table2(standard=rows(GOOD, BAD, GOOD))),
        (answers.helps_robust, table2(at=rows(GOOD, HALF, GOOD, HALF))),
        (answers.unified_better, table2(unified=rows(GOOD, BAD, HALF), standard=rows(HALF, BAD, BAD))),
    ):
        assert judge(found).verdict == HOLDS
        for key, record in found.experiments["table2"]["cells"].items():
            if "adaptive" in key:
                record["found"]["unmet"] = ["no attack without gradients"]
        told = judge(found)
        assert told.verdict == FEW
        assert told.evidence.endswith("INCOMPLETE (no attack without gradients)")


def test_pattern() -> None:
    pgd = {"right clean": GOOD, "fooled": GOOD, "case 3": BAD, "backwards": 100, "forwards": 100, "seconds": 1.0}
    name = "cifar10-standard/"
    some, most = "1" * 90 + "0" * 10, "0" * 10 + "1" * 90
    for fooled, third, cost, verdict in (
        (some, GOOD, 300, FAILS), (GOOD, HALF, 300, HOLDS), (GOOD, HALF, 150, FAILS), (most, some, 300, FEW),
    ):  # fmt: skip
        held = {**pgd, "case 3": third, "backwards": cost}
        cells = {f"{name}pgd, stopped when fooled": {**pgd, "fooled": fooled}, f"{name}pattern": held}
        told = attackers.pattern_weak(Results({"pattern-cost": made("pattern-cost", **cells)}))
        assert told.verdict == verdict
        assert f"{cost / 100:.1f} times the gradients" in told.evidence


@pytest.mark.parametrize(
    ("unified", "bpda", "surrogate", "verdict", "why"),
    [
        (BAD, GOOD, GOOD, HOLDS, ""),
        (BAD, BAD, BAD, FAILS, ""),
        (BAD, GOOD, BAD, FAILS, "What BPDA-EOT does not find, the gradient through encoder and decoder does."),
        (GOOD, GOOD, GOOD, FAILS, "does not break the symmetric system either"),
        (BAD, "10" * 50, GOOD, FEW, ""),
    ],
)
def test_asymmetry(unified: str, bpda: str, surrogate: str, verdict: str, why: str) -> None:
    cells: dict[str, Any] = {"asymmetric, reconstruction/adaptive": {"adaptive": GOOD}}
    for system, found in (("unified", (GOOD, unified, BAD)), ("asymmetric", (GOOD, bpda, surrogate))):
        for column, outcome in zip(("clean", "bpda-eot", "surrogate pgd"), found, strict=True):
            cells[f"{system}, reconstruction/{column}"] = {"outcome": outcome}
    told = attackers.asymmetry(Results({"bpda": made("bpda", **cells)}))
    assert told.verdict == verdict
    assert why in told.evidence


def test_everything_together_counts_the_experiment_s_own_attacks() -> None:
    cells = {f"plug-in, input/{column}": {"outcome": digits}
             for column, digits in (("clean", "1110"), ("bpda-eot", "1101"), ("surrogate pgd", "1011"))}  # fmt: skip
    cells["plug-in, input/adaptive"] = {"adaptive": "111"}
    assert Results({"bpda": made("bpda", **cells)}).together("plug-in, input") == "100"


def test_convergence_equation_and_one_step() -> None:
    def by(last: float) -> dict[str, Any]:
        ends = {"0": {"to clean": [0.03], "to attacked": [0.03]}, "200": {"to clean": [last], "to attacked": [0.02]}}
        return {"by N": ends}

    for on_f, through, verdict in ((0.01, 0.01, HOLDS), (0.01, 0.05, OBLIVIOUS), (0.05, 0.05, FAILS)):
        found = results(convergence={"pgd-20 on f": by(on_f), "pgd-20 on f(D(E))": by(through)})
        assert changes.approaches(found).verdict == verdict
    for part, verdict in (([-1.0, -2.0], HOLDS), ([-0.1, -0.1], FAILS)):
        both = {"non-robust": part, "all": [-1.0, -2.0]}
        kept = {"kept": {"0.8": {"true": both, "adversarial": both}}}
        found = Results({"features": made("features", **{"cifar10-standard": kept})})
        assert changes.equation(found).verdict == verdict
    for rate, right, verdict in ((1.0, "1", HOLDS), (-1.0, "1", FAILS), (1.0, "0", FAILS)):
        cell = {"n": 500, "rate": [rate] * 500, "error before": [1.0] * 500, "error after": [0.0] * 500,
                "some rate is right": right * 500}  # fmt: skip
        names = ("1 outputs", "1 outputs, label of the image", "10 outputs, label of the image")
        found = Results({"one-step": made("one-step", **dict.fromkeys(names, cell))})
        assert changes.one_step(found).verdict == verdict


def test_a_quick_result_is_never_a_verdict() -> None:
    found = changed("1" * 400, 1.0)
    found.experiments["logit-change"]["quick"] = True
    claim, verdict = judged(found)["the true logit falls most"]
    assert verdict.verdict == FEW
    assert verdict.evidence.startswith("A first look only, which says: holds.")
    assert claim.experiment == "logit-change"


def test_a_quick_result_that_is_only_looked_at_is_no_verdict_either() -> None:
    found = histogram(LOW, HIGH, HIGH, HIGH)
    found.experiments["each-attack"]["quick"] = True
    told = judged(found)
    assert told["detection survives AutoAttack"][1].verdict == FEW
    assert told["clean and attacked scores are separable"][1].verdict == HOLDS


def test_a_mistake_in_a_judge_is_not_taken_for_a_missing_cell() -> None:
    broken = results(logit_change={"cifar10-standard/pgd-20": {"something": "else"}})
    with pytest.raises(KeyError):
        judged(broken)


def test_what_was_not_measured_is_not_judged() -> None:
    verdicts = [verdict.verdict for _, verdict in judged(Results()).values()]
    assert verdicts == [UNKNOWN] * len(CLAIMS)
    assert "**Not measured yet.**" in markdown(Results())


def test_the_page_shows_claims_and_experiments_and_escapes_them() -> None:
    found = histogram(LOW, HIGH, LOW, HIGH)
    found.experiments["histogram"]["title"] = "<Scores>"
    page = html(found)
    assert "&lt;Scores&gt;" in page
    assert "<Scores>" not in page
    assert OBLIVIOUS in page
    assert page.count("<svg") == 2
    assert page == html(found), "the same results give the same page"
    assert "http" not in page.replace("http://www.w3.org", "")
    assert f"{len(CLAIMS) - 3} are not measured yet" in page
    assert page.index('id="summary"') < page.index('id="words"') < page.index('id="claims"')
    targets = set(re.findall(r' id="([^"]+)"', page))
    assert len(targets) == page.count(' id="'), "no place twice"
    linked = set(re.findall(r'href="#([^"]+)"', page))
    assert linked <= targets
    assert len([place for place in linked if place.startswith("claim-")]) == len(CLAIMS)
