"""What an evaluation of a refusing defence adds: the denial curve, the bounds of a search, the rival."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor

import alu
from alu.attacks.adaptive.confident import Probable
from alu.attacks.adaptive.view import Level
from alu.attacks.goals import ever_fooled, fooled
from alu.check import AluWarning
from alu.detectors import Neighbourhood
from alu.detectors.neighbourhood import lead
from alu.evaluation import metrics
from alu.evaluation.beside import beside_confidence
from alu.evaluation.diagnostics import sandwich
from alu.evaluation.merging import merge
from alu.evaluation.result import Result
from alu.stats import Share, sign_test
from tests.linear import Linear, LinearData, linear_data
from tests.unit import results

EPS, RADIUS = 8, 2


def evaluated(detector: Neighbourhood, data: LinearData, **settings: Any) -> Result:
    defense = alu.Defense(Linear(), detector=detector, rule="abstain")
    threat = alu.ThreatModel("Linf", EPS / 255)
    return alu.evaluate(defense, data.images, data.labels, threat, "adaptive", "quick", diagnostics=False, **settings)


@pytest.fixture(scope="module")
def result() -> Result:
    return evaluated(Neighbourhood(RADIUS / 255), linear_data(30))


def exact(data: LinearData, distance: float) -> int:
    return int((data.right & (data.distance > distance)).sum())


def test_every_figure_is_the_known_one(result: Result) -> None:
    data = linear_data(30)
    assert result.unmet == []
    assert metrics.robust_or_refused(result).count == exact(data, max(RADIUS, EPS - RADIUS))
    assert metrics.coverage(result).count == int((data.distance > RADIUS).sum())
    curve = metrics.denial(result)
    assert [round(255 * eps, 6) for eps, _ in curve] == [0, 1, 2, 4]
    assert [share for _, share in curve] == [Share(exact(data, RADIUS + eps), 30) for eps in (0, 1, 2, 4)]
    near, far = ([bool(row[name]) for row in result.curves["bounds"]] for name in ("near", "far"))
    assert near == (data.right & (data.distance > RADIUS)).tolist()
    assert far == (data.right & (data.distance > EPS - RADIUS)).tolist()
    text = str(result)
    assert "never silenced" in text
    assert "left out: soft" in text
    assert "refusal by confidence at the same coverage" in text


def test_confidence_answers_as_many_and_is_compared_image_by_image(result: Result) -> None:
    data = linear_data(30)
    rival, beside = result.rival, beside_confidence(result)
    assert rival is not None
    assert beside is not None
    assert metrics.coverage(rival).count == metrics.coverage(result).count
    assert [record.name for record in rival.attacks] == ["fgsm", "pgd-20", "direct", "confident"]
    assert rival.unmet == []
    # The threshold is the score of the least sure image that is answered.
    least = float(data.distance[torch.tensor(rival.clean.accepted)].min())
    best = data.right & torch.tensor(rival.clean.accepted) & (data.distance > EPS - least)
    assert abs(beside.confidence.count - int(best.sum())) <= 1, "an image at the threshold itself may be rounded away"
    ours, theirs = metrics.kept(result), metrics.kept(rival)
    assert beside.p == sign_test(len(ours - theirs), len(theirs - ours))
    assert beside.difference.value == pytest.approx((len(ours) - len(theirs)) / 30)


def test_confidence_itself_has_no_rival() -> None:
    data = linear_data(12)
    detector = alu.detectors.Confidence(false_alarm=0.25)
    defense = alu.Defense(Linear(), detector=detector, rule="abstain").calibrate(data.images)
    threat = alu.ThreatModel("Linf", EPS / 255)
    result = alu.evaluate(defense, data.images, data.labels, threat, "adaptive", "quick", diagnostics=False)
    assert result.rival is None
    assert len(metrics.denial(result)) == 4
    assert sandwich(result) == []


def changed(result: Result, **answers: list[int]) -> Result:
    """The same with other bounds: images of which "near" and "far" hold."""
    copied = deepcopy(result)
    n = len(copied.labels)
    copied.curves["bounds"] = [
        {"image": image, **{name: int(image in chosen) for name, chosen in answers.items()}} for image in range(n)
    ]
    return copied


def test_the_bounds_hold_and_a_violation_says_what_it_means(result: Result) -> None:
    (sound,) = sandwich(result)
    assert (sound.id, sound.status) == ("sandwich", "passed")
    kept = sorted(metrics.kept(result))
    assert f"the defence keeps {len(kept)} (RAR)" in sound.says
    (above,) = sandwich(changed(result, near=kept[3:], far=[]))
    assert above.status == "failed"
    assert "3 are kept that are not among" in above.says
    assert above.says.endswith("the check's search is weaker than the attack on the bare classifier.")
    everything = list(range(30))
    (below,) = sandwich(changed(result, near=everything, far=everything))
    assert below.status == "failed"
    assert f"{30 - len(kept)} of the 30 were lost" in below.says
    assert "Fewer are kept than the lower bound" in below.says
    unknown = changed(result)
    unknown.curves.pop("bounds")
    (missing,) = sandwich(unknown)
    assert missing.status == "not run"


class Blind(Neighbourhood):
    """A check that looks the wrong way: it refuses next to nothing."""

    @staticmethod
    def _ascent(logits: Tensor, at: Tensor, labels: Tensor, target: Tensor | None) -> Tensor:
        return -Neighbourhood._ascent(logits, at, labels, target)


def test_a_weak_search_fails_the_lower_bound_and_a_wide_one_says_what_it_promises() -> None:
    data = linear_data(30)
    (item,) = sandwich(evaluated(Blind(4 / 255), data, bare=False))
    assert item.status == "failed"
    assert "Fewer are kept than the lower bound" in item.says
    with pytest.warns(AluWarning, match=r"a radius of .* promises as much"):
        (item,) = sandwich(evaluated(Neighbourhood(EPS / 255), data, bare=False))
    assert item.status == "passed"
    assert "an answer that is given equals the clean one" in item.says


def test_shards_give_the_same_curves(result: Result) -> None:
    data, parts = linear_data(30), []
    for index in range(2):
        parts.append(evaluated(Neighbourhood(RADIUS / 255), data, shard=(index, 2), block_size=10))
    whole = merge(parts)
    one = evaluated(Neighbourhood(RADIUS / 255), data, block_size=10)
    assert whole.curves == one.curves
    assert one.curves == result.curves
    assert whole.rival is not None
    assert one.rival is not None
    assert results.without_times(whole.rival) == results.without_times(one.rival)


class Lottery(Neighbourhood):
    """A check whose random start decides alone: most draws refuse everything, some refuse nothing."""

    def search(self, evidence: Any, labels: Tensor, *, stop: bool = True, visit: Any = None) -> tuple[Tensor, Tensor]:
        found = evidence.purified.detach().clone()
        if self.seed % 4 != 3:
            offset = torch.where(labels[:, None] == 0, -1.0, 1.0) * evidence.classifier.direction.sign()
            found += offset.view_as(found)
        with torch.no_grad():
            highest = lead(evidence.classifier(found), labels)
        if visit is not None:
            visit(found, highest, None)
        return found, highest


def test_a_refused_picture_is_sent_again_and_the_worst_draw_counts() -> None:
    data = linear_data(12)
    detector = Lottery(RADIUS / 255, restarts=2)
    defense = alu.Defense(Linear(), detector=detector, rule="abstain")
    flipped = 1 - data.own
    assert not bool(fooled(defense, data.images, flipped).any()), "the deployed draw refuses everything"
    assert bool(ever_fooled(defense, data.images, flipped).all()), "one of ten does not"
    goal = Probable(defense, data.images, flipped, level=Level(), rank=0)
    assert bool(goal.reached(data.images).all()), "so that a search keeps what another draw accepts"
    result = evaluated(detector, data, bare=False)
    # The draw that refuses nothing leaves what the classifier alone keeps, and clean images are refused by the others.
    broken = {image for image, value in metrics.worst(result).items() if value == metrics.WRONG}
    assert broken == set((~data.right | (data.distance <= EPS)).nonzero().flatten().tolist())
    assert metrics.robust_or_refused(result).count == 0
