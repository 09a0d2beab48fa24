"""one-step: the exact test whether any positive rate gives the right answer, beside a search over many rates."""

from __future__ import annotations

import torch

from alu.experiments.one_step import some_rate
from alu.rng import generator


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
