"""Where the purified image goes: nearer to the clean image, and nearer than to the attacked one."""

from __future__ import annotations

from typing import Any

from alu.paper import convergence
from alu.paper.claims import FAILS, HOLDS, OBLIVIOUS
from alu.paper.convergence import Key, approaches
from alu.paper.store import Column
from tests.paper.toys import points, results, rows


def by(last: float) -> dict[str, Any]:
    begin = {"to clean": [0.03], "to attacked": [0.03], "cosine": [0.5]}
    end = {"to clean": [last], "to attacked": [0.02], "cosine": [0.7]}
    return {"n": 1, "attack itself": [0.03], "by N": {"0": begin, "200": end}}


def test_nearer_under_both_attacks_or_under_one() -> None:
    for on_f, through, status in ((0.01, 0.01, HOLDS), (0.01, 0.05, OBLIVIOUS), (0.05, 0.05, FAILS)):
        found = results({Key(Column.PGD_ON_F): by(on_f), Key(Column.PGD_ON_VAE): by(through)})
        assert approaches(found).status == status


def test_distances_and_cosines_are_drawn_as_they_were_measured() -> None:
    charts, table = convergence.view(results({Key(Column.PGD_ON_F): by(0.01)}))
    found = points(charts)
    assert found["to clean image/200"] == "0.01"
    assert found["cosine, pgd-20 on f/0"] == "0.5"
    assert rows(table)["200"][0].startswith("0.0100 ")
