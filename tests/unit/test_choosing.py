"""Choosing the rule of a fit, and its width."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import alu
from alu import Defense
from alu.choosing import KINDS, WIDTHS, Candidate, Choice, choose
from alu.data import Dataset
from alu.detectors import LogitPeak
from alu.evaluation.harmless import HARMLESS
from alu.fitting import Plan, fit_and_measure
from alu.purifiers import Purifier
from alu.stats import Share
from tests.toys import toy_asymmetric, toy_data, toy_defense
from tests.unit.test_fitted import Bright, defense_around, half_bright

pytestmark = pytest.mark.filterwarnings("ignore:Harmless changes cost|This defence notices:alu.check.AluWarning")


GRADED, ALU, PURIFIED = Candidate("graded"), Candidate("alu"), Candidate("purified")
TWO, TEN = Candidate("graded", 0.02), Candidate("graded", 0.1)


def quiet(*_: Any) -> None:
    pass


def shares(*counts: int) -> dict[str, Share]:
    return {kind: Share(count, 100) for kind, count in zip(KINDS, counts, strict=False)}


def test_every_kind_counts_alike_and_the_first_of_equals_is_taken() -> None:
    assert Choice.among({GRADED: shares(90, 90, 80), ALU: shares(80, 95, 80)}).rule == "graded"
    assert Choice.among({GRADED: shares(92, 10, 85), PURIFIED: shares(86, 65, 80)}).rule == "purified"
    assert Choice.among({GRADED: shares(90, 80, 70), ALU: shares(70, 80, 90)}).rule == "graded"
    # The same mean of other shares, of which rounding must not make a difference.
    near = Choice.among({GRADED: shares(90, 80, 80), ALU: shares(90, 82, 80)})
    assert near.rule == "graded", "less than a point on average is no reason to change more answers"
    assert "because it changes few answers and is right about as often" in str(near)
    assert Choice.among({GRADED: shares(90, 80, 80), ALU: shares(90, 84, 80)}).rule == "alu"
    assert Choice.among({TWO: shares(1, 1, 1, 13), TEN: shares(1, 13, 1, 1)}).suspicious == 0.02
    assert Choice.among({TWO: shares(90, 80, 60, 80), TEN: shares(90, 80, 70, 79)}).suspicious == 0.1


def test_the_sentence_says_what_was_chosen_and_why() -> None:
    right = {TWO: shares(90, 91, 60, 80), TEN: shares(90, 91, 70, 79), ALU: shares(80, 92, 71, 70)}
    why = (
        "because it is right most often on pictures that measure nothing else: 90.0 % clean (n = 100), 91.0 % under "
        "PGD-20 at 8/255 (n = 100), 70.0 % under PGD-20 at 4/255 (n = 100), 79.0 % after moderate harmless changes "
        "(n = 100); on average 82.5 %. The others on average: graded up to p = 2 %: 80.2 %"
    )
    assert str(Choice.among(right)) == (
        f'Rule "graded" was chosen, with pictures up to p = 10 % as suspicious, {why}; alu: 78.2 %.'
    )
    del right[ALU]
    assert str(Choice.among(right)) == f'Rule "graded" takes pictures up to p = 10 % as suspicious, {why}.'
    by_rule = str(Choice.among({GRADED: shares(80), ALU: shares(90)}))
    assert by_rule.startswith('Rule "alu" was chosen, because it')
    assert by_rule.endswith("The others on average: graded: 80.0 %.")


def test_each_candidate_is_judged_as_it_would_be_deployed() -> None:
    defense, data = toy_defense("alu"), toy_data(40)
    choice = choose(defense, data, seed=2, device="cpu", watch=quiet)
    assert tuple(choice.right) == (*(Candidate("graded", width) for width in WIDTHS), ALU, PURIFIED)
    some = data.draw(40, 2)
    for candidate, found in choice.right.items():
        rival = defense.with_rule(candidate.rule, candidate.suspicious)
        assert found["clean"] == Share(int((rival.decide(data.images).label == data.labels).sum()), 40)
        for kind, eps in (("attacked", 8 / 255), ("weaker", 4 / 255)):
            attacked = alu.attacks.PGD(eps=eps, steps=20, seed=2)(defense.classifier, some.images, some.labels)
            assert found[kind] == Share(int((rival.decide(attacked).label == some.labels).sum()), 40)
        changed = [change.apply(data.images) for change in HARMLESS if change.moderate]
        right = sum(int((rival.decide(images).label == data.labels).sum()) for images in changed)
        assert found["changed"] == Share(right, 40 * len(changed))


def test_what_does_not_fit_or_cannot_be_attacked_is_left_out() -> None:
    by_reconstruction = choose(toy_defense("alu", "reconstruction"), toy_data(8), seed=0, device="cpu", watch=quiet)
    assert tuple(by_reconstruction.right) == (ALU, PURIFIED)
    assert tuple(choose(toy_asymmetric(), toy_data(8), seed=0, device="cpu", watch=quiet).right) == (ALU, PURIFIED)

    def remote(images: Tensor) -> Any:
        return Bright()(images).detach().numpy()

    choice = choose(defense_around(remote), half_bright(20), seed=0, device="cpu", watch=quiet)
    assert all(set(found) == {"clean", "changed"} for found in choice.right.values())


class Level(nn.Module):
    """Two classes, by the mean of all rows but the first two, which is near 0.5: any attack turns it over."""

    def forward(self, images: Tensor) -> Tensor:
        mean = images[:, :, 2:].mean((1, 2, 3))
        return 1000 * torch.stack([0.5 - mean, mean - 0.5], 1)


class Restoring(Purifier):
    """Sets the lower rows to the usual level of the class that the first two rows tell."""

    def run(self, images: Tensor) -> Tensor:
        bright = images[:, :, :2].mean((1, 2, 3)) > 0.5
        level = torch.where(bright, 0.503, 0.497).to(images)[:, None, None, None]
        return torch.cat([images[:, :, :2], level.expand_as(images[:, :, 2:])], 2)


def levels(count: int, least: float, most: float, misled: bool = False) -> Dataset:
    """Levels of 0.497 and 0.503; each seventh picture lies `least` to `most` farther out, and may also be `misled`:
    its first rows tell the other class."""
    place = torch.arange(count)
    labels, odd = place % 2, place // 2 % 7 == 0
    draws = torch.rand(count, generator=torch.Generator().manual_seed(count))
    extra = torch.where(odd, least + (most - least) * draws, 0.001 * draws)
    images = torch.empty(count, 1, 8, 8)
    images[:, :, 2:] = (0.5 + (2 * labels - 1) * (0.003 + extra))[:, None, None, None]
    images[:, :, :2] = (0.2 + 0.6 * torch.where(odd & torch.tensor(misled), 1 - labels, labels))[:, None, None, None]
    return Dataset(images, labels, ("dark", "bright"), "levels")


def test_the_zone_is_wide_where_weak_attacks_hide_and_purification_costs_nothing() -> None:
    def hidden(count: int) -> Dataset:
        return levels(count, 0.016, 0.03)

    defense = Defense(Level(), Restoring(), LogitPeak(), "graded").calibrate(hidden(600).images)
    choice = choose(defense, hidden(280), ("graded",), seed=0, device="cpu", watch=quiet)
    # A seventh of the clean pictures change more than one that is attacked at 4/255: p is about 14 %.
    assert choice.taken == Candidate("graded", 0.2)
    weaker = {candidate: found["weaker"].value for candidate, found in choice.right.items()}
    assert weaker[Candidate("graded", 0.1)] <= 0.3
    assert weaker[choice.taken] >= 0.9
    assert choice.right[choice.taken]["clean"].value >= 0.99


def test_the_zone_is_narrow_where_purification_costs_answers() -> None:
    def costly(count: int) -> Dataset:
        return levels(count, 0.001, 0.004, misled=True)

    defense = Defense(Level(), Restoring(), LogitPeak(), "graded").calibrate(costly(600).images)
    choice = choose(defense, costly(280), ("graded",), seed=0, device="cpu", watch=quiet)
    assert choice.taken == TWO
    clean = [choice.right[Candidate("graded", width)]["clean"].value for width in WIDTHS]
    assert clean == sorted(clean, reverse=True)
    assert clean[0] >= 0.96
    assert clean[-1] <= 0.88
    # Where widths make no difference, as with none below the false-alarm rate, the smallest is taken.
    loose = Defense(Level(), Restoring(), LogitPeak(0.3), "graded").calibrate(costly(600).images)
    assert choose(loose, costly(280), ("graded",), seed=0, device="cpu", watch=quiet).suspicious == WIDTHS[0]


def test_all_candidates_share_one_purification() -> None:
    class Counting(Restoring):
        seen = 0

        def run(self, images: Tensor) -> Tensor:
            Counting.seen += len(images)
            return super().run(images)

    pictures = levels(60, 0.001, 0.004)
    defense = Defense(Level(), Counting(), LogitPeak(0.05), "graded").calibrate(pictures.images)
    Counting.seen = 0
    choose(defense, pictures, seed=0, device="cpu", watch=quiet)
    assert Counting.seen == 60 + 2 * 60 + 50 * sum(change.moderate for change in HARMLESS)


class Inverting(Purifier):
    """Turns dark into bright: every purified answer is wrong."""

    def run(self, images: Tensor) -> Tensor:
        return 1 - images


def test_a_fit_chooses_apart_from_what_it_measures_and_keeps_a_rule_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from alu import fitting

    seen: list[Tensor] = []
    exact = fitting.choose

    def watched(defense: Any, pictures: Any, *rivals: Any, **settings: Any) -> Choice:
        seen.append(pictures.indices)
        return exact(defense, pictures, *rivals, **settings)

    monkeypatch.setattr(fitting, "choose", watched)
    data = half_bright(400)
    plan: dict[str, Any] = {"purifier": Inverting(), "false_alarm": 0.05}
    fitted = fit_and_measure(Bright(), data, plan=Plan(**plan))
    assert fitted.defense.rule == "graded", "the others answer from the purified picture"
    assert fitted.why.startswith('Rule "graded" was chosen')
    assert fitted.clean.deployed.value > 0.6
    measured = fitting.own_part(data.labels, "test")
    assert not set(seen[0].tolist()) & set(measured.tolist())
    assert len(seen[0]) == 60, "20 validation pictures are too few: those of the calibration are taken"
    named = fit_and_measure(Bright(), data, plan=Plan(**plan, rule="alu"))
    assert (named.defense.rule, named.why, len(seen)) == ("alu", "", 1)
    fit_and_measure(Bright(), half_bright(2_000), plan=Plan(**plan))
    assert len(seen[1]) == 100, "of 2,000 pictures 100 validate"
    assert torch.equal(seen[1].sort().values, fitting.own_part(half_bright(2_000).labels, "validation").sort().values)


def test_a_fit_chooses_the_width_of_graded_unless_it_is_given() -> None:
    plan: dict[str, Any] = {"purifier": Restoring(), "false_alarm": 0.02}
    data = levels(1_400, 0.016, 0.03)
    chosen = fit_and_measure(Level(), data, plan=Plan(**plan, rule="graded"))
    assert (chosen.defense.rule, chosen.defense.suspicious) == ("graded", 0.2)
    assert chosen.why.startswith('Rule "graded" takes pictures up to p = 20 % as suspicious, because')
    given = fit_and_measure(Level(), data, plan=Plan(**plan, rule="graded", suspicious=0.1))
    assert (given.defense.suspicious, given.why) == (0.1, "")
    auto = fit_and_measure(Level(), data, plan=Plan(**plan, suspicious=0.3))
    assert auto.defense.suspicious == 0.3
    assert auto.why.startswith(f'Rule "{auto.defense.rule}" was chosen, because')
    assert "up to p" not in auto.why, "there was no width to choose"
    other = fit_and_measure(Level(), data, plan=Plan(**plan, rule="alu"))
    assert (other.defense.suspicious, other.why) == (0.02, "")
    assert "validation" in Plan(**plan, rule="graded").parts
    assert "validation" not in Plan(**plan, rule="graded", suspicious=0.1).parts
    with pytest.raises(alu.AluError, match=r"suspicious is the p-value .* it is 2"):
        Plan(suspicious=2)
