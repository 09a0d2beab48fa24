"""What the evaluator notices: diagnostics fire where they should, traits are seen, and nothing is lost on the way."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alu import Defense
from alu.attacks import PGD
from alu.attacks.adaptive import Direct
from alu.attacks.goals import fooled
from alu.data import Dataset
from alu.decision import Evidence
from alu.detectors import LogitShift
from alu.evaluation import metrics, probes
from alu.evaluation.diagnostics import read
from alu.evaluation.harmless import HARMLESS
from alu.evaluation.result import Judged, Result
from alu.evaluation.run import evaluate
from alu.evaluation.subject import Subject
from alu.evaluation.suite import Plan, entries
from alu.purifiers import Blur, Purifier
from alu.purifiers.base import Purification
from alu.report import write
from alu.rng import generator
from alu.threat import ThreatModel
from tests.unit import results
from tests.unit.pages import read as read_page
from tests.unit.test_every_term import NoGradient, random_defense
from tests.unit.toys import Toy, toy_data, toy_defense, toy_images

THREAT = ThreatModel("Linf", 0.1)


def verdict(result: Result, id: str) -> tuple[str, str]:
    (found,) = (item for item in result.diagnostics if item.id == id)
    return found.verdict, found.says


def curves(eps: list[int], steps: list[int], restarts: list[int]) -> dict[str, Any]:
    sizes = (0.025, 0.05, 0.1, 0.2, 0.25)
    return {
        "eps": [{"eps": size, "right": right, "n": 32} for size, right in zip(sizes, eps, strict=True)],
        "steps": [{"steps": count, "right": right, "n": 32} for count, right in zip((5, 20, 60), steps, strict=True)],
        "restarts": [
            {"restarts": count, "right": right, "n": 32} for count, right in zip((1, 4), restarts, strict=True)
        ],
    }


@pytest.mark.parametrize(
    ("id", "eps", "steps", "restarts"),
    [
        ("", [9, 6, 3, 1, 0], [4, 3, 2], [3, 2]),
        ("eps-monotone", [9, 6, 8, 1, 0], [4, 3, 2], [3, 2]),
        ("eps-large", [9, 6, 3, 3, 3], [4, 3, 2], [3, 2]),
        ("more-steps", [9, 6, 3, 1, 0], [9, 6, 3], [3, 2]),
        ("more-restarts", [9, 6, 3, 1, 0], [4, 3, 2], [6, 3]),
    ],
)
def test_curves_that_should_not_be(id: str, eps: list[int], steps: list[int], restarts: list[int]) -> None:
    found = read(curves(eps, steps, restarts), THREAT)
    assert [item.id for item in found if item.verdict == "failed"] == ([id] if id else [])


def test_noise_that_does_as_well_as_the_attack() -> None:
    model, data = Toy(), toy_data(24)
    strong = ThreatModel("Linf", 0.5)
    by_noise = probes.noise(Subject(model), data.images, data.labels, strong, torch.zeros(24, dtype=torch.bool))
    assert by_noise.verdict == "failed"
    sound = probes.noise(Subject(model), data.images, data.labels, strong, torch.ones(24, dtype=torch.bool))
    assert sound.verdict == "passed"


class Shaky(Toy):
    """Noise of its own at every call."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images) + torch.randn(len(images), 5)


class Ordered(Toy):
    """The first image of a batch is treated otherwise."""

    def forward(self, images: Tensor) -> Tensor:
        place = torch.arange(len(images))[:, None] / len(images)
        return super().forward(images) + 3 * place * torch.arange(5)


class QuietWhenWatched(Toy):
    """Random, and says so to nobody who takes a gradient."""

    def forward(self, images: Tensor) -> Tensor:
        logits = super().forward(images)
        return logits if images.requires_grad else logits + torch.randn(len(images), 5)


def test_steadiness() -> None:
    images = toy_images(24)

    def failed(model: nn.Module) -> list[str]:
        return [item.id for item in probes.steadiness(Subject(model), images) if item.verdict == "failed"]

    assert failed(Toy()) == []
    assert failed(Ordered()) == ["batch-size", "batch-order"]
    # Who is random is not also accused of looking at the batch, but must say so, and be so when a gradient is taken.
    assert failed(Shaky()) == ["second-call"]
    assert failed(QuietWhenWatched()) == ["second-call", "gradients-on"]
    declared = Subject(Shaky())
    declared.declared = random_defense("purified").traits
    found = probes.steadiness(declared, images)
    assert [item.id for item in found if item.verdict == "failed"] == []
    (said,) = (item.says for item in found if item.id == "second-call")
    assert "judged on fresh draws" in said


class PeekingDetector(LogitShift):
    def score(self, evidence: Evidence) -> Tensor:
        value = super().score(evidence)
        return value - 0.5 * value.mean()


class RandomDetector(LogitShift):
    def score(self, evidence: Evidence) -> Tensor:
        value = super().score(evidence)
        return value * (1 + 0.9 * torch.randn_like(value))


class CountingDetector(LogitShift):
    """Whole numbers have no slope."""

    def score(self, evidence: Evidence) -> Tensor:
        return super().score(evidence).floor()


@pytest.mark.parametrize(
    ("detector", "trait", "id"),
    [
        (PeekingDetector(0.2), "batch_dependent", "batch-size"),
        (RandomDetector(0.2), "stochastic", "second-call"),
        (CountingDetector(0.2), "gradient", "gradients-usable"),
    ],
)
def test_a_detector_is_looked_at_too(detector: LogitShift, trait: str, id: str) -> None:
    defense = Defense(Toy(), Blur(0.5), detector, "abstain", "input").calibrate(toy_images(60, seed=9))
    result = evaluate(defense, toy_data(24), THREAT, "paper", "quick")
    traits, sound = result.subject["traits"], {"batch_dependent": False, "stochastic": False, "gradient": "exact"}
    assert {name for name, usual in sound.items() if traits[name] != usual} == {trait}
    assert verdict(result, id)[0] == "failed"


class Wall(Purifier):
    """Changes nothing, and hands back a gradient that has nothing to do with it."""

    def run(self, images: Tensor) -> Tensor:
        return images

    def differentiated(self, images: Tensor, grad_mode: str, reconstruct: bool) -> Purification:
        class Garbage(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, images: Tensor) -> Tensor:
                return images.clone()

            @staticmethod
            def backward(ctx: Any, *grads: Tensor) -> Tensor:
                return torch.randn(grads[0].shape, generator=generator(1, "garbage")) * grads[0].abs().mean()

        return Purification(Garbage.apply(images))  # type: ignore[no-untyped-call]


def test_images_of_the_bare_classifier_that_beat_the_gradient_are_seen() -> None:
    data = toy_data(24)
    defense = Defense(Toy(), Wall(), rule="purified")
    own = Direct(eps=0.1, steps=20, budget="quick")(defense, data.images, data.labels)
    carried = PGD(eps=0.1)(Toy(), data.images, data.labels)
    counts = [int(fooled(defense, images, data.labels).sum()) for images in (own, carried)]
    assert counts[0] + 5 < counts[1]
    assert verdict(evaluate(defense, data, THREAT, "paper", "quick"), "oblivious")[0] == "failed"
    sound = Defense(Toy(), Blur(0.5), rule="purified")
    assert verdict(evaluate(sound, data, THREAT, "paper", "quick"), "oblivious")[0] == "passed"
    assert verdict(evaluate(Toy(), data, THREAT, "paper", "quick"), "oblivious")[0] == "not run"


class Probabilities(Toy):
    """What AutoAttack warns of."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).softmax(1)


@pytest.mark.filterwarnings("ignore::alu.check.AluWarning")
def test_what_autoattack_says_about_a_defence_is_not_lost() -> None:
    defense = Defense(Probabilities(), Blur(0.5), rule="purified")
    result = evaluate(defense, toy_data(6), THREAT, "oblivious", "standard")
    assert "probability distribution" in verdict(result, "autoattack-flags")[1]
    assert verdict(result, "autoattack-flags")[0] == "failed"


@pytest.mark.parametrize("eps", [0.002, 0.3])
def test_autoattack_that_saw_no_image_has_no_opinion(eps: float) -> None:
    result = evaluate(Toy(), toy_data(6), ThreatModel("Linf", eps), "adaptive", "standard")
    seen = any(record.judged.images for record in result.attacks if record.name == "autoattack")
    assert seen == (eps < 0.1)
    assert verdict(result, "autoattack-flags")[0] == ("passed" if seen else "not run")


class Few(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.toy, self.classes = Toy(), classes

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.toy(images)[:, : self.classes]
        return logits


@pytest.mark.parametrize("classes", [2, 3])
def test_few_classes_are_no_fault(classes: int) -> None:
    model, images = Few(classes), toy_images(8)
    with torch.no_grad():
        labels = model(images).argmax(1)
    data = Dataset(images, labels, tuple("abc"[:classes]), "few", "test")
    result = evaluate(model, data, ThreatModel("Linf", 0.004), "adaptive", "standard")
    assert result.complete, result.unmet
    assert "apgd-t" not in [record.name for record in result.attacks]
    assert verdict(result, "autoattack-flags")[0] != "failed"


def test_more_budget_is_never_less_where_there_is_no_gradient() -> None:
    left = {}
    for budget in ("quick", "standard"):
        result = evaluate(NoGradient(), toy_data(6), THREAT, "adaptive", budget, diagnostics=False)
        left[budget] = metrics.robust(result).count
        ran = {record.name for record in result.attacks if not record.failed}
        assert "square" in ran
    assert "hopskipjump" in ran
    assert left["standard"] <= left["quick"] < 6


def plan(budget: str, **more: Any) -> Plan:
    data = toy_data(6)
    return Plan(THREAT, "adaptive", budget, 0, 50, data.images, data.labels, **more)


def test_a_random_subject_is_attacked_over_draws() -> None:
    chosen = {entry.name: entry for entry in entries(Subject(random_defense("abstain")), plan("standard"))}
    assert {chosen[name].attack.draws for name in ("direct", "stealth", "match", "soft")} == {10}  # type: ignore[attr-defined]
    steady = {entry.name: entry for entry in entries(Subject(toy_defense()), plan("standard"))}
    assert steady["stealth"].attack.draws is None  # type: ignore[attr-defined]
    bare = Subject(Shaky())
    bare.traits = random_defense("purified").traits
    chosen = {entry.name: entry for entry in entries(bare, plan("standard"))}
    assert chosen["autoattack"].attack.version == "rand"  # type: ignore[attr-defined]
    assert chosen["apgd-ce"].attack.draws == 10  # type: ignore[attr-defined]
    assert "square" in chosen, "which AutoAttack's version for random models lacks"


def test_an_oblivious_attacker_may_own_another_network() -> None:
    other = Toy()
    made = {entry.name: entry for entry in entries(Subject(toy_defense()), plan("quick", others=(other,)))}
    assert made["mim-20 elsewhere"].knowledge == "oblivious"
    assert made["mim-20 elsewhere"].attack.source is other  # type: ignore[attr-defined]
    assert "mim-20 elsewhere" not in {entry.name for entry in entries(Subject(toy_defense()), plan("quick"))}


def test_what_stands_beside_the_defence_is_what_it_says() -> None:
    defense, data = toy_defense(), toy_data(60)
    images = PGD(eps=0.1, steps=5)(Toy(), data.images, data.labels)
    judged = Subject(defense).judge(images, data.labels, range(60))
    with torch.no_grad():
        assert judged.bare == Toy()(images).argmax(1).tolist()
        assert judged.purified == Toy()(defense.purifier(images)).argmax(1).tolist()
        assert judged.control == Toy()(Blur(sigma=0.5)(images)).argmax(1).tolist()
    assert judged.bare != judged.purified
    assert judged.purified != judged.answer


@pytest.mark.parametrize("detector", [True, False])
def test_harmless_changes_are_counted_with_and_without_a_detector(detector: bool) -> None:
    defense = toy_defense() if detector else Defense(Toy(), Blur(0.5), rule="purified")
    data = toy_data(60)
    result = evaluate(defense, data, THREAT, "oblivious", "quick", bare=False)
    rows = {row["change"]: row for row in result.detection["harmless"]}
    assert list(rows) == [change.name for change in HARMLESS]
    for change in HARMLESS[:3]:
        decision = defense.decide(change.apply(data.images))
        assert rows[change.name]["flagged"] == int(decision.flagged.sum())
        assert rows[change.name]["right"] == int((decision.label == data.labels).sum())
    assert any(row["flagged"] for row in rows.values()) == detector
    assert any(row["right"] < row["bare"] for row in rows.values())
    dearest = max(rows.values(), key=lambda row: row["bare"] - row["right"])
    bare, deployed = (f"{100 * dearest[name] / 60:.1f} %" for name in ("bare", "right"))
    (line,) = (line for line in str(result).splitlines() if line.startswith("harmless changes"))
    assert dearest["change"] in line
    assert line.endswith(f"costs most: bare {bare}, deployed {deployed} (n = 60)")


def test_the_mean_over_draws_stands_beside_the_worst(tmp_path: Path) -> None:
    result = results.result(10)
    result.clean.steady = [1.0] * 8 + [0.5, 0.0]
    first, second = result.attacks[0].judged, result.attacks[1].judged
    first.steady, second.steady = [0.9] * 5 + [1.0] * 5, [0.4] * 2 + [1.0] * 8
    for record in result.attacks[2:]:
        record.judged.steady = []
    # Each image under the attack that lowers its own share most: 0.4, 0.4, 0.9, 0.9, 0.9, 1, 1, 1, 0.5, 0.
    assert metrics.over_draws(result) == pytest.approx((0.85, 0.7))
    assert metrics.right_draws(result) == (result.clean.steady, [0.4, 0.4, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0, 0.5, 0.0])
    assert "mean over draws           clean 85.0 %, robust at most 70.0 %" in str(result)
    write([result], tmp_path / "page.html")
    figures = {key: text for key, (_, text) in read_page((tmp_path / "page.html").read_text()).figures.items()}
    assert [text for key, text in figures.items() if "/draws/" in key] == ["85.0 %", "70.0 %"]
    assert metrics.over_draws(results.result(10)) is None
    assert "mean over draws" not in str(results.result(10))


@pytest.mark.parametrize(
    ("norm", "sizes", "ticks", "title"),
    [
        ("L2", [0.125, 0.25, 0.5, 1.0, 4.0], ["0.125", "0.25", "0.5", "1", "4"], "eps (not to scale)"),
        ("Linf", [2 / 255, 8 / 255, 64 / 255], ["2", "8", "64"], "eps in 1/255 (not to scale)"),
        ("Linf", [0.01, 8 / 255], ["0.01", "8/255"], "eps (not to scale)"),
    ],
)
def test_the_axis_of_eps_is_in_the_threat_s_own_unit(
    tmp_path: Path, norm: str, sizes: list[float], ticks: list[str], title: str
) -> None:
    result = results.result(20)
    result.threat = {"norm": norm, "eps": sizes[0]}
    result.curves = {"eps": [{"eps": size, "right": 3, "n": 20, "attack": "PGD"} for size in sizes]}
    write([result], tmp_path / "page.html")
    (drawn,) = re.findall(r"<svg[^>]*>.*?</svg>", _chart(tmp_path, "Correct answers against eps"), re.S)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert title in texts
    assert [text for text in texts if text in ticks] == ticks


def _chart(folder: Path, title: str) -> str:
    """The part of the page from a chart's title to the end of its drawing."""
    text = (folder / "page.html").read_text()
    start = text.index(title)
    return text[start : text.index("</svg>", start) + 6]


def test_an_empty_judgement_has_no_draws() -> None:
    assert Judged().steady == []
