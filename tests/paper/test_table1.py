"""Table 1: the paper's numbers above ours, both protocols, lengths of L2 attacks, and what ALU adds."""

from __future__ import annotations

from typing import Any

from alu.paper.claims import FAILS, FEW, HOLDS, OBLIVIOUS
from alu.paper.store import Adaptive, Reading
from alu.paper.table1 import ATTACKS, IN_L2, Images, Key, adds_to_denoiser, view
from alu.paper.views import Table
from tests.paper.toys import BAD, GOOD, HALF, answers, points, results, rows


def test_the_papers_numbers_stand_above_ours() -> None:
    cells: dict[Key, Any] = {Key(attack): answers("0000", "1000", "1110", "1111", "1111") for attack in ATTACKS}
    for attack in IN_L2:
        cells[Key(attack)]["lengths"] = [0.1, 0.3, 0.7, 0.9]
    cells[Key(Images.CLEAN)] = answers("0111", "1110", "1100")
    cells[Key(Adaptive(Reading.INPUT))] = {"adaptive": "1101", "unmet": ["one more"]}
    drawn, shown, strict, lengths = view(results(cells))
    found = points(drawn)
    assert (found["PGD-20: + ALU"], found["PGD-20: + ALU: the paper"]) == ("0.75", "0.7")
    assert sum(value == "0.75" for key, value in found.items() if key.endswith("+ ALU")) == 6, "five attacks, and all"
    assert len(found) == 31, "five attacks on three defences, the paper's and ours, and one union"
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


def test_what_alu_adds_to_a_denoiser() -> None:
    def status(alu: str, denoised: str, union: str, l2: str = "", **more: Any) -> str:
        cells: dict[Key, Any] = {Key(name): {"input": {"alu": alu}, "purified": denoised} for name in ATTACKS}
        cells[Key(Images.CW_FIXED)] = {"input": {"alu": l2 or alu}, "purified": denoised}
        cells[Key(Adaptive(Reading.INPUT))] = {"adaptive": union, **more}
        cells[Key(Adaptive(Reading.PURIFIED))] = {"adaptive": BAD}
        return adds_to_denoiser(results(cells)).status

    assert status(GOOD, HALF, BAD) == OBLIVIOUS
    assert status(GOOD, HALF, HALF) == HOLDS
    assert status(GOOD, HALF, "2" * 100) == OBLIVIOUS, "a rejection is no right answer"
    assert status(GOOD, HALF, HALF, unmet=["one more"]) == FEW
    assert status(HALF, HALF, BAD) == FEW
    assert status(BAD, HALF, BAD) == FAILS
    assert status(GOOD, HALF, BAD, l2=BAD) == OBLIVIOUS, "L2 is outside the threat model"
