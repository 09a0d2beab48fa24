"""advice: each row comes from the cells of its experiment, and is left out where they are missing."""

from __future__ import annotations

from typing import Any

from alu.paper import advice, certificates, check, graded, robust_base, threats
from alu.paper.store import Reading, Results
from tests.paper.toys import rows

TEN = {"n": 10, "bare": "1100000000", "purified": "0" * 10, "alu": "0" * 10, "graded": "1111111100", "states": "0" * 10}
COSTS: dict[str, Any] = {
    "latency": {"batches": [{"batch": 64, "ratio_to_classifier": {"VAE + ALU, N=0": 3.35, "VAE + ALU, N=20": 27.4}}]},
    "refusal": {
        "check": {"answered": {"ratio_to_forward": 28.9}, "refused": {"ratio_to_forward": 7.5}},
        "certificate": {"median_samples": 200},
    },
}


def everything() -> Results:
    """Results with all cells that the advice is made from."""
    kinds = {str(graded.Key(name)): {"found": TEN} for name in (graded.CLEAN, advice.NOISE, advice.ATTACKED)}
    attacked = {"n": 10, "clean": "1111111110", "attacked": "1111100001"}
    bare = {"n": 10, "clean": "1" * 10, "attacked": "0" * 10}
    knows = {
        str(threats.Key(reading, attacker)): {"found": cell}
        for attacker in ("transfer", "query")
        for reading, cell in ((Reading.GRADED, attacked), (Reading.INPUT, attacked), (Reading.BARE, bare))
    }
    checked = {
        "n": 10, "clean": "1111111022", "stands": "1111110000", "contested": "0" * 10, "searched again": "1111110000",
        "broken": {}, "never silenced": {"1": "0" * 10},
    }  # fmt: skip
    alone = {"n": 10, "clean": "1" * 10, "stands": {str(radius): "1110000000" for radius in robust_base.RADII}}
    proven = {"n": 10, "right": "1" * 10, "answered": "1" * 10, "attacked": "", "radii": [0.3] * 4 + [0.1] * 6}
    return Results({
        "graded": {"cells": kinds},
        "threats": {"cells": knows},
        "check": {
            "sizes": {"n": 10, "few": 0, "part": 10},
            "cells": {str(check.Key(check.BASE, check.CHECK, check.DEPLOYED, 0)): {"found": checked}},
        },
        "robust-base": {
            "sizes": {"pinned": 10, "n": 10, "part": 10},
            "cells": {str(robust_base.Key(check.BASE, 0)): {"found": alone}},
        },
        "certificates": {
            "sizes": {"n": 10, "few": 0, "part": 10},
            "cells": {str(certificates.Key(advice.PROVEN[0], 0)): {"found": proven}},
        },
    })  # fmt: skip


def test_every_attacker_has_a_row_with_cost_and_figures() -> None:
    found = rows(advice.table(everything(), COSTS))
    assert len(found) == 6, "one for each attacker"
    harmless, oblivious, transfers, asks, knows, must = found.values()
    assert harmless[2] == "clean: 80.0 [49, 94] n=10 (alone 20.0); Gaussian noise 0.1: 80.0 [49, 94] n=10 (alone 20.0)"
    assert harmless[1] == "27 (20 latent steps); without steps 3.4"
    assert oblivious[2] == "PGD-20: 80.0 [49, 94] n=10 (alone 20.0)"
    assert transfers[2] == "transfer: 50.0 [24, 76] n=10 (alone 0.0)"
    assert (asks[0], asks[2]) == ("`alu fit --rule alu`", "query: 50.0 [24, 76] n=10 (alone 0.0)")
    assert knows[1:] == [
        "29 (answered), 8 (refused)",
        "never answered wrongly: 60.0 [31, 83] n=10 (alone 30.0 [11, 60] n=10); it answers 80.0 [49, 94] n=10 of clean "
        "pictures",
    ]
    assert must[1:] == [
        "200 noisy copies for half of the pictures",
        "right and proven within 0.25 (L2): 40.0 [17, 69] n=10",
    ]


def test_what_was_not_measured_is_left_out() -> None:
    assert rows(advice.table(Results(), {})) == {"": ["not measured yet"]}
    some = everything()
    del some.experiments["certificates"], some.experiments["threats"]
    found = rows(advice.table(some, {"refusal": {"certificate": "it is missing"}}))
    assert [row[1] for row in found.values()] == ["–", "–", "–"]
