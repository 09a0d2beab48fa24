"""graded: names of changes are real ones, bars compare with the right rule, states are counted."""

from __future__ import annotations

from alu.evaluation.harmless import HARMLESS
from alu.paper.graded import EVERY, MODERATE, STATES, STRONG, Key, rival, view
from tests.paper.toys import results, rows


def test_every_harmless_change_is_measured_under_its_own_name() -> None:
    assert {change.name for change in HARMLESS if change.moderate} == set(MODERATE)
    assert {change.name for change in HARMLESS if not change.moderate} == set(STRONG)
    assert len(set(EVERY)) == len(EVERY)


def test_states_are_named_in_the_order_of_their_numbers() -> None:
    from alu.state import State

    assert tuple(state.word for state in State) == STATES


def test_a_bar_holds_up_to_its_size_and_no_further() -> None:
    def cell(bare: int, purified: int, alu: int, graded: int) -> dict[str, object]:
        right = {"bare": bare, "purified": purified, "alu": alu, "graded": graded}
        shown = {rule: "1" * count + "0" * (200 - count) for rule, count in right.items()}
        return {"n": 200, **shown, "states": "0" * 150 + "1" * 30 + "2" * 15 + "3" * 5}

    measured = {
        "clean": cell(180, 160, 160, 175),
        "PGD-20, 8 of 255": cell(0, 100, 180, 175),
        "PGD-20, 1 of 255": cell(40, 150, 150, 80),
        "Gaussian noise 0.1": cell(50, 120, 110, 116),
        "salt and pepper 2 %": cell(140, 120, 100, 135),
        "blur of 1 pixel": cell(140, 120, 100, 90),
    }
    table, _ = view(results({Key(name): found for name, found in measured.items()}))
    shown = rows(table)
    assert [shown[name][-2] for name in measured] == ["holds", "FAILS", "–", "holds", "FAILS", "–"]
    assert shown["PGD-20, 8 of 255"][-3].startswith("alu: -2.5 [")
    assert shown["Gaussian noise 0.1"][-3].startswith("purified: -2.0 [")
    assert shown["clean"][-1] == "150 clean, 30 suspicious, 15 attacked, 5 corrupted"
    assert rival("salt and pepper 2 %", measured["salt and pepper 2 %"]) == ("bare", 0.02)
    assert shown["JPEG, quality 75"][0] == "not measured yet"
