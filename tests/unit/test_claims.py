"""Verdicts on the paper's claims from results made by hand: each kind of verdict is reached, and none is typed."""

from __future__ import annotations

from typing import Any

import pytest

from alu.report.paper import judging
from alu.report.paper.claims import CLAIMS, judged, markdown
from alu.report.paper.judging import FAILS, HOLDS, OBLIVIOUS, UNKNOWN
from alu.report.paper.page import html
from alu.report.paper.results import Results


def made(experiment: str, **cells: Any) -> dict[str, Any]:
    known = {key: {"found": value, "commit": "abc"} for key, value in cells.items()}
    return {"experiment": experiment, "title": "Toy", "quick": False, "sizes": {"n": 3}, "seed": 0, "why": "Toy.",
            "cells": known}  # fmt: skip


def results(**experiments: dict[str, Any]) -> Results:
    return Results({name.replace("_", "-"): made(name, **cells) for name, cells in experiments.items()})


def both_readings(values: list[float]) -> dict[str, Any]:
    return {"input": values, "reconstruction": values}


def histogram(test: list[float], on_f: list[float], through: list[float], hard: list[float]) -> Results:
    mark = {"train": 5.0, "held out": 5.0}
    cells = {
        "clean": both_readings(test), "pgd-20 on f": both_readings(on_f), "pgd-20 on f(D(E))": both_readings(through),
        "autoattack on f": both_readings(hard), "thresholds": {"input": mark, "reconstruction": mark},
    }  # fmt: skip
    return results(histogram=cells)


LOW, HIGH = [1.0] * 400, [9.0] * 400


@pytest.mark.parametrize(
    ("judge", "found", "verdict"),
    [
        (judging.overlap, histogram(LOW, HIGH, HIGH, HIGH), HOLDS),
        (judging.overlap, histogram([*LOW[:300], *HIGH[:100]], HIGH, HIGH, HIGH), FAILS),
        (judging.separable, histogram(LOW, HIGH, HIGH, HIGH), HOLDS),
        (judging.separable, histogram(LOW, HIGH, LOW, HIGH), OBLIVIOUS),
        (judging.separable, histogram(LOW, LOW, LOW, HIGH), FAILS),
        (judging.survives_autoattack, histogram(LOW, HIGH, HIGH, LOW), FAILS),
        (judging.survives_autoattack, histogram(LOW, HIGH, HIGH, HIGH), OBLIVIOUS),
    ],
)
def test_scores(judge: Any, found: Results, verdict: str) -> None:
    assert judge(found).verdict == verdict


def changes(falls: str, others: float) -> Results:
    cell = {"true falls most": falls, "others, mean size": [others] * 4, "true": [-10.0] * 4}
    return results(logit_change={f"cifar10-standard/{name}": cell for name in ("pgd-20", "cw-linf", "autoattack")})


def test_logit_changes() -> None:
    assert judging.true_falls(changes("1" * 400, 1.0)).verdict == HOLDS
    assert judging.true_falls(changes("1" * 300 + "0" * 100, 1.0)).verdict == FAILS
    assert judging.others_stay(changes("1", 1.0)).verdict == HOLDS
    assert judging.others_stay(changes("1", 4.0)).verdict == FAILS


def steps(near: str, far: str) -> Results:
    rows = {
        count: {"reconstruction": {"all flagged": digits, "alu": digits}}
        for count, digits in (("60", near), ("200", far))
    }
    return results(iterations={"encoder": {"pgd-20 on f(D(E))": rows}})


def test_fifty_steps() -> None:
    assert judging.fifty(steps("1" * 98 + "0" * 2, "1" * 99 + "0")).verdict == HOLDS
    assert judging.fifty(steps("1" * 80 + "0" * 20, "1" * 90 + "0" * 10)).verdict == FAILS


def rates(small: str, large: str) -> Results:
    cells = {}
    for setting in ("gd, sse", "gd, mse", "gd, norm", "adam, sse"):
        for rate, digits in (("1e-05", small), ("0.01", large)):
            row = {"100": {"reconstruction": {"all flagged": digits}}}
            cells[f"{setting}, {rate}"] = {"pgd-20 on f(D(E))": row}
    return Results({"learning-rate": made("learning-rate", **cells)})


def test_small_rates() -> None:
    assert judging.small_rate(rates("1" * 100, "0" * 100)).verdict == HOLDS
    worse = judging.small_rate(rates("0" * 100, "1" * 100))
    assert worse.verdict == FAILS
    assert "best 100.0 [96.3, 100.0] n=100 at 0.01" in worse.evidence


def test_more_right_under_attack_than_clean_is_for_the_oblivious_only() -> None:
    clean = {"bare": "10", "input": {"alu": "10"}}
    attacked = {"bare": "00", "input": {"alu": "11"}}
    found = results(artefacts={"E1 and E5": {"clean": clean, "attacked": attacked},
                               "E2": {"answer is the swapped label": "1" * 9 + "0"}})  # fmt: skip
    assert judging.above_clean(found).verdict == OBLIVIOUS
    assert judging.hard_samples(found).verdict == FAILS, "it follows a label that is not there"
    found.experiments["artefacts"]["cells"]["E2"]["found"]["answer is the swapped label"] = "0" * 10
    assert judging.hard_samples(found).verdict == HOLDS


def rows(alu: str, bare: str, union: str, bare_union: str = "0" * 100) -> dict[str, Any]:
    both = {reading: {"alu": alu} for reading in ("input", "reconstruction")}
    cells: dict[str, Any] = {}
    for column in ("clean", "pgd-20 on f", "pgd-20 on f(D(E))", "autoattack on f"):
        cells[column] = {"bare": bare, **both}
    for reading in ("input", "reconstruction"):
        cells[f"adaptive, {reading}"] = {"adaptive": union}
    cells["adaptive, bare"] = {"adaptive": bare_union}
    return cells


def table2(**classifiers: dict[str, Any]) -> Results:
    cells = {f"cifar10-{name}/{key}": value for name, found in classifiers.items() for key, value in found.items()}
    return Results({"table2": made("table2", **cells)})


GOOD, BAD, HALF = "1" * 100, "0" * 100, "1" * 40 + "0" * 60


def test_table_two() -> None:
    assert judging.several_attacks(table2(standard=rows(GOOD, BAD, BAD))).verdict == OBLIVIOUS
    assert judging.several_attacks(table2(standard=rows(GOOD, BAD, HALF))).verdict == HOLDS
    assert judging.several_attacks(table2(standard=rows(HALF, BAD, HALF))).verdict == FAILS
    assert judging.helps_robust(table2(at=rows(HALF, HALF, BAD, HALF))).verdict == FAILS
    assert judging.helps_robust(table2(at=rows(GOOD, HALF, BAD, HALF))).verdict == OBLIVIOUS
    assert judging.helps_robust(table2(at=rows(GOOD, HALF, GOOD, HALF))).verdict == HOLDS
    assert (
        judging.unified_better(table2(unified=rows(GOOD, BAD, BAD), standard=rows(HALF, BAD, BAD))).verdict == OBLIVIOUS
    )
    assert judging.unified_better(table2(unified=rows(GOOD, BAD, HALF), standard=rows(HALF, BAD, BAD))).verdict == HOLDS
    assert judging.unified_better(table2(unified=rows(HALF, BAD, BAD), standard=rows(GOOD, BAD, BAD))).verdict == FAILS


def test_pattern_asymmetry_convergence_equation_and_one_step() -> None:
    pgd = {"right clean": GOOD, "fooled": GOOD, "case 3": BAD, "backwards": 100}
    held = {**pgd, "case 3": GOOD, "backwards": 300}
    name = "cifar10-standard/"
    assert judging.pattern_weak(results(pattern_cost={f"{name}pgd": pgd, f"{name}pattern": held})).verdict == FAILS
    weak = {**held, "case 3": HALF}
    assert judging.pattern_weak(results(pattern_cost={f"{name}pgd": pgd, f"{name}pattern": weak})).verdict == HOLDS
    for union, verdict in ((BAD, FAILS), (GOOD, HOLDS)):
        cells: dict[str, Any] = {"asymmetric, reconstruction/adaptive": {"adaptive": union}}
        for system in ("unified", "asymmetric"):
            for column in ("clean", "bpda-eot", "surrogate pgd"):
                cells[f"{system}, reconstruction/{column}"] = {"outcome": union}
        assert judging.asymmetry(Results({"bpda": made("bpda", **cells)})).verdict == verdict
    for last, verdict in ((0.01, HOLDS), (0.05, FAILS)):
        by = {"0": {"to clean": [0.03], "to attacked": [0.03]}, "200": {"to clean": [last], "to attacked": [0.02]}}
        found = results(convergence={"pgd-20 on f(D(E))": {"by N": by}})
        assert judging.approaches(found).verdict == verdict
    for part, verdict in (([-1.0, -2.0], HOLDS), ([-0.1, -0.1], FAILS)):
        both = {"non-robust": part, "all": [-1.0, -2.0]}
        kept = {"kept": {"0.8": {"true": both, "adversarial": both}}}
        assert (
            judging.equation(Results({"features": made("features", **{"cifar10-standard": kept})})).verdict == verdict
        )
    for rate, left, verdict in ((1.0, 0.0, HOLDS), (-1.0, 0.0, FAILS), (1.0, 0.5, FAILS)):
        cell = {"n": 2, "rate": [1.0, rate], "error before": [1.0, 1.0], "error after": [left, left]}
        found = Results({"one-step": made("one-step", **{"1 outputs": cell, "10 outputs": cell})})
        assert judging.one_step(found).verdict == verdict


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
