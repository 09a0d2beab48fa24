"""Features are split as the paper says, and its equation holds only if the non-robust part is nearly all."""

from __future__ import annotations

import torch

from alu.paper.claims import FAILS, HOLDS
from alu.paper.features import STANDARD, Key, equation, split, view
from tests.paper.toys import results, rows


def test_features_are_split_as_the_paper_says() -> None:
    # Contributions to the true logit: 2 (kept), 4 (falls to 1), -1 (irrelevant); one image.
    before, after = torch.tensor([[1.0, 2.0, 1.0]]), torch.tensor([[1.0, 0.5, 3.0]])
    own, theirs = torch.tensor([[2.0, 2.0, -1.0]]), torch.tensor([[0.0, -1.0, 1.0]])
    parts = split(before, after, own, theirs, 0.8)
    assert parts["true"] == {"robust": [0.0], "non-robust": [-3.0], "irrelevant": [-2.0], "all": [-5.0]}
    assert parts["adversarial"] == {"robust": [0.0], "non-robust": [1.5], "irrelevant": [2.0], "all": [3.5]}
    assert parts["share of features"] == {"robust": 0.3333, "non-robust": 0.3333, "irrelevant": 0.3333}


def test_the_equation() -> None:
    for part, status in (([-1.0, -2.0], HOLDS), ([-0.1, -0.1], FAILS)):
        logit = {"robust": [0.0, 0.0], "non-robust": part, "irrelevant": [0.0, 0.0], "all": [-1.0, -2.0]}
        found = results({Key(STANDARD): {"kept": {"0.8": {"true": logit, "adversarial": logit}}}})
        assert equation(found).status == status
        (table,) = view(found)
        carried = rows(table)["cifar10-standard, true logit, keeps 0.8"][1]
        assert carried.startswith("100% " if status is HOLDS else "7% ")
