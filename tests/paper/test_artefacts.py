"""E1 to E5: drawn as they were measured, decoded from what is there, and the two claims that they decide."""

from __future__ import annotations

from typing import Any

import torch

from alu.paper import adaptive, artefacts, threats
from alu.paper.artefacts import DECODED, SPLIT, SWAPPED, Key, above_clean, hard_samples
from alu.paper.claims import FAILS, HOLDS, OBLIVIOUS, UNKNOWN
from alu.paper.store import ALU_READINGS
from alu.rng import generator
from tests.paper.toys import answers, points, results, rows, verdict


def test_what_explains_the_effect_is_drawn_as_it_was_measured() -> None:
    cells: dict[Any, Any] = {
        SPLIT: {"clean": answers("1110", "1110", "1100"), "attacked": answers("0010", "0000", "1011")},
        SWAPPED: {"answer is the swapped label": "1110", "answer is the true label": "0001", "rank": "1598"},
        DECODED: {"fitted on": 7, "linear probe": "1000", "classifier on the negative": "1100"},
        Key("E4", "blur 1"): {"clean": answers("1111", "1110", "1110"), "attacked": answers("0000", "1000", "0100")},
    }
    *drawn, listed = artefacts.view(results(cells))
    assert len(drawn) == 5
    assert points(*drawn) == {
        "clean images, ALU right": "0.5", "attacked images, ALU right": "0.75",
        "attacked, f was right clean": repr(2 / 3), "attacked, f was wrong clean": "1.0",
        "ALU answers the next class": "0.75", "ALU answers the true class": "0.25",
        "the next class, ranked last five clean": repr(2 / 3),
        "linear probe, fitted on 7 others": "0.25", "f, shown the negative on grey": "0.5",
        "blur 1: clean, ALU": "0.75", "blur 1: attacked, ALU": "0.25", "blur 1: attacked, purified only": "0.25",
        "all attacked images, ALU right": "0.75", "attacks on f that succeeded, ALU right": "0.5",
    }  # fmt: skip
    assert rows(listed)["E1 attacked, f was right clean"] == ["66.7 [20.8, 93.9] n=3"]
    assert rows(listed)["E5 attacks on f that succeeded, ALU right"][0].startswith("50.0 ")


def test_a_probe_learns_what_is_there_and_nothing_where_nothing_is() -> None:
    stream = generator(0, "probe")
    labels = torch.arange(200) % 10
    written = torch.nn.functional.one_hot(labels, 20).float() + 0.1 * torch.randn((200, 20), generator=stream)
    weights = artefacts._probe(written[:100], labels[:100])
    assert ((written[100:] @ weights).argmax(1) == labels[100:]).float().mean() > 0.95
    noise = torch.randn((200, 20), generator=stream)
    weights = artefacts._probe(noise[:100], labels[:100])
    assert ((noise[100:] @ weights).argmax(1) == labels[100:]).float().mean() < 0.3


def split_of(clean: str, attacked: str) -> dict[str, Any]:
    return {"clean": answers("10" * 10, clean, clean), "attacked": answers("00" * 10, attacked, attacked)}


def informed(decoy: str, reconstruction: str = "") -> dict[Any, Any]:
    """More right attacked than clean, and attackers who know more, with another outcome of decoy in one reading."""
    cells: dict[Any, Any] = {SPLIT: split_of("10" * 10, "11" * 10)}
    for reading, outcome in zip(ALU_READINGS, (decoy, reconstruction or decoy), strict=True):
        cells[adaptive.Key("cifar10-vae", reading, "clean")] = {"outcome": "10" * 10}
        cells[adaptive.Key("cifar10-vae", reading, "Decoy")] = {"outcome": outcome}
        cells[threats.Key(reading, "surrogate")] = {"attacked": "0" * 20}
    return cells


def test_more_right_under_attack_than_clean_is_for_the_oblivious_only() -> None:
    assert above_clean(results(informed("0" * 20))).status == OBLIVIOUS
    assert above_clean(results(informed("1" * 20))).status == HOLDS
    split = above_clean(results(informed("0" * 20, "1" * 20)))
    assert (split.status, split.limit) == (HOLDS, "In the reconstruction reading only")


def test_hard_samples_do_not_explain_labels_that_are_not_there() -> None:
    def found(answer: str, rank: str) -> Any:
        swapped = {"answer is the swapped label": answer, **({"rank": rank} if rank else {})}
        return results({SPLIT: split_of("10" * 10, "11" * 10), SWAPPED: swapped})

    assert hard_samples(found("1" * 90 + "0" * 10, "8" * 100)).status == FAILS, "it follows a label that is not there"
    assert hard_samples(found("0" * 100, "8" * 100)).status == HOLDS
    likely = found("1" * 50 + "0" * 50, "1" * 50 + "9" * 50)
    assert hard_samples(likely).status == HOLDS, "only likely confusions are followed"
    assert (
        verdict(found("0" * 100, ""), "hard samples explain why accuracy under attack exceeds clean accuracy").status
        == UNKNOWN
    )
