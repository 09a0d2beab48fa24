"""The demo's rows are those of bundled defences: nothing is computed on a second path."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import alu
from alu import demo
from alu.decision import Decision
from alu.loading import load_bundled_defense
from alu.progress import silent

N = 6


@pytest.fixture(scope="module")
def defense() -> alu.Defense:
    return load_bundled_defense("demo-pca")


@pytest.fixture(scope="module")
def result(defense: alu.Defense) -> demo.DemoResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "DEFENSES", {demo.MAIN: "demo-pca"})
        patch.setattr(demo, "load_bundled_defense", lambda name, _: {"demo-pca": defense}[name])
        return demo.run_demo(N)


@pytest.fixture(scope="module")
def decisions(defense: alu.Defense) -> dict[str, Decision]:
    """What the same defence decides on the same images."""
    test = alu.data.sample("test").draw(N, 0)
    images = demo.attacked_images(defense, test.images, test.labels, 0, silent)
    return {column: defense.decide(some) for column, some in images.items()}


def bits(values: Tensor) -> list[int]:
    return values.int().tolist()


def test_each_row_is_what_a_defence_decides(result: demo.DemoResult, decisions: dict[str, Decision]) -> None:
    labels = alu.data.sample("test").draw(N, 0).labels
    bare, purified, defended = (row["columns"] for row in result.rows)
    assert list(decisions) == list(defended)
    for column, decision in decisions.items():
        assert bare[column] == {"correct": bits(decision.pre_logits.argmax(1) == labels), "flagged": None}
        assert purified[column] == {"correct": bits(decision.post_logits.argmax(1) == labels), "flagged": None}
        assert defended[column] == {"correct": bits(decision.label == labels), "flagged": bits(decision.flagged)}
        torch.testing.assert_close(torch.tensor(result.scores[column]), decision.score.float(), rtol=0, atol=1e-3)
    assert result.setting["calibration images"] == len(alu.data.sample("calibration"))


def test_examples_show_the_attacked_image(result: demo.DemoResult, decisions: dict[str, Decision]) -> None:
    clean, attacked, decoy = result.examples[:3]
    assert [one["column"] for one in (clean, attacked, decoy)] == ["clean", "pgd", "decoy"]
    assert clean["adversarial"] == clean["clean"] == attacked["clean"]
    assert attacked["adversarial"] != attacked["clean"]
    assert attacked["answer"] == int(decisions["pgd"].label[0])
