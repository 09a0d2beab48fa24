"""One step: the appendix's rate by its formula, some rate by a search, and how often there is one."""

from __future__ import annotations

import torch

from alu.paper.claims import FAILS, HOLDS
from alu.paper.one_step import VERSIONS, Key, best_rate, measure, one_step, some_rate, view
from alu.paper.workbench import Workbench
from alu.rng import generator
from tests.paper.toys import results, rows


def test_one_number_is_reached_in_one_step_and_ten_are_not() -> None:
    bench = Workbench({"n": 50})
    one, fitting, ten, fitting_ten = (measure(bench, key) for key in VERSIONS)
    assert max(fitting["error after"]) < 1e-9
    assert sum(rate > 0 for rate in fitting["rate"]) < 50, "even with a label that fits it is not always positive"
    assert max(one["error after"]) < 1e-9
    assert min(ten["error after"]) > 0.05
    assert 0 < fitting_ten["some rate is right"].count("1") < 50, "at times some rate gives the right answer"
    assert 25 < sum(rate > 0 for rate in one["rate"]) < 50, "more often positive than not, but not always"


def test_the_appendix_formula_is_the_best_rate() -> None:
    stream = generator(0, "formula")
    decoder, classifier, image, code, wanted = (
        torch.randn(shape, generator=stream, dtype=torch.float64) for shape in ((6, 3), (1, 6), (6,), (3,), (1,))
    )
    stated = (wanted - classifier @ decoder @ code) / (2 * classifier @ decoder @ decoder.T @ (image - decoder @ code))
    torch.testing.assert_close(best_rate(decoder, classifier, image, code, wanted), stated.squeeze())


def test_a_rate_that_is_right_exists_where_a_search_finds_one() -> None:
    stream, found = generator(0, "rates"), []
    rates = torch.logspace(-6, 6, 4001, dtype=torch.float64)
    for _ in range(60):
        decoder, classifier, image, code = (
            torch.randn(shape, generator=stream, dtype=torch.float64) for shape in ((8, 3), (4, 8), (8,), (3,))
        )
        label = int((classifier @ image).argmax())
        start, slope = (classifier @ decoder @ way for way in (code, 2 * decoder.T @ (image - decoder @ code)))
        searched = bool(((start + rates[:, None] * slope).argmax(1) == label).any())
        found.append(searched)
        assert some_rate(decoder, classifier, image, code, label) == searched
    assert {True, False} == set(found)
    # Two classes of equal slope: no rate changes which of them is ahead.
    decoder, classifier = torch.eye(2, dtype=torch.float64), torch.tensor([[1.0, 0.0], [2.0, 0.0]]).double()
    image, code = torch.tensor([1.0, 1.0]).double(), torch.tensor([1.0, 0.0]).double()
    assert not some_rate(decoder, classifier, image, code, 0)
    assert some_rate(decoder, classifier, image, code, 1)


def test_the_claim_needs_a_positive_rate_and_a_right_answer() -> None:
    for rate, right, status in ((1.0, "1", HOLDS), (-1.0, "1", FAILS), (1.0, "0", FAILS)):
        cell = {"n": 500, "rate": [rate] * 500, "error before": [1.0] * 500, "error after": [0.0] * 500,
                "some rate is right": right * 500}  # fmt: skip
        found = results(dict.fromkeys(VERSIONS, cell))
        assert one_step(found).status == status
        (table,) = view(found)
        assert rows(table)[str(Key(1))][3].startswith("100.0 " if rate > 0 else "0.0 ")
