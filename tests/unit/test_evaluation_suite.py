"""Suites: traits oblige, and each subject meets the attacks that are meant for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import alu
from alu import Defense
from alu.attacks import PGD
from alu.data import Dataset
from alu.detectors import LogitShift, Neighbourhood
from alu.evaluation import metrics
from alu.evaluation.evaluate import evaluate
from alu.evaluation.networks import _transfers, other_networks
from alu.evaluation.obligations import unmet
from alu.evaluation.subject import Subject
from alu.evaluation.suite import Budget, Entry, Evaluation
from alu.models.cards import bundled_name
from alu.purifiers.base import Traits
from alu.threat import ThreatModel
from tests.toys import NoGradient, Shaky, Toy, random_defense, sampled, toy_data, toy_defense, toy_images
from tests.unit import results

THREAT = ThreatModel("Linf", 0.1)


def test_the_adaptive_suite_is_complete_and_the_others_say_that_they_are_not() -> None:
    assert evaluate(toy_defense(), toy_data(4), THREAT, "adaptive", "quick", diagnostics=False).complete
    weak = evaluate(toy_defense(), toy_data(4), THREAT, "oblivious", "quick", diagnostics=False)
    assert not weak.complete
    assert str(weak).startswith("INCOMPLETE: Against an attacker who does not know it")
    assert "\nINCOMPLETE (no gradient attack on the deployed output" in str(weak)


def test_traits_oblige() -> None:
    everything = Traits(stochastic=True, iterative=True, gradient="twin", detector=True)
    assert unmet(Traits(), []) == ["no gradient attack on the deployed output"]
    assert unmet(Traits(batch_dependent=True), [])[1:] == [
        "no answer that is independent of the other images in its batch"
    ]
    assert unmet(everything, []) == [
        "no gradient attack on the deployed output",
        "no attack that aims at the detector",
        "no attack that follows the purifier's steps",
        "no attack without gradients",
        "no transfer attack from simpler or other models",
        "no gradients averaged over random draws",
    ]
    entry = Entry("x", "adaptive", "", PGD(), meets=("white-box", "steps"))
    left = unmet(replace(everything, stochastic=False), [entry])
    assert left == [
        "no attack that aims at the detector",
        "no attack without gradients",
        "no transfer attack from simpler or other models",
    ]


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
    assert results.status(result, "autoattack-flags")[0] != "failed"


def test_more_budget_is_never_less_where_there_is_no_gradient() -> None:
    left = {}
    for budget in ("quick", "standard"):
        result = evaluate(NoGradient(), toy_data(6), THREAT, "adaptive", budget, diagnostics=False)
        left[budget] = metrics.robust(result).count
        ran = {record.name for record in result.attacks if not record.failed}
        assert "square" in ran
    assert "hopskipjump" in ran
    assert left["standard"] <= left["quick"] < 6


def attacks(subject: Subject, budget: Budget, **more: Any) -> dict[str, Any]:
    """The attacks that a suite chooses, by name."""
    data = toy_data(6)
    evaluation = Evaluation(subject, data, data.images, data.labels, THREAT, "adaptive", budget, 0, 50, {}, **more)
    return {entry.name: entry for entry in evaluation.attacks}


def test_a_random_subject_is_attacked_over_draws() -> None:
    chosen = attacks(Subject(random_defense("abstain")), "standard")
    assert {chosen[name].attack.draws for name in ("direct", "stealth", "match", "soft")} == {10}
    steady = attacks(Subject(toy_defense()), "standard")
    assert steady["stealth"].attack.draws is None
    bare = Subject(Shaky())
    bare.traits = random_defense("purified").traits
    chosen = attacks(bare, "standard")
    assert chosen["autoattack"].attack.version == "rand"
    assert chosen["apgd-ce"].attack.draws == 10
    assert "square" in chosen, "which AutoAttack's version for random models lacks"


def test_an_oblivious_attacker_may_own_another_network() -> None:
    other = Toy()
    chosen = attacks(Subject(toy_defense()), "quick", other_networks=(other,))
    assert chosen["mim-20 elsewhere"].knowledge == "oblivious"
    assert chosen["mim-20 elsewhere"].attack.source is other
    assert "mim-20 elsewhere" not in attacks(Subject(toy_defense()), "quick")


def test_a_random_defence_is_attacked_over_draws_and_judged_on_fresh_ones() -> None:
    defense = Defense(Toy(), sampled(), LogitShift(0.05), "alu", "input").calibrate(toy_images(60, seed=9))
    assert defense.traits.stochastic
    result = evaluate(defense, toy_data(6), ThreatModel("Linf", 0.05), "adaptive", "quick", diagnostics=False)
    assert "bpda-eot" in [record.name for record in result.attacks]
    assert result.complete, result.unmet
    assert len(result.clean.steady) == 6
    steady = evaluate(toy_defense(), toy_data(6), ThreatModel("Linf", 0.05), "adaptive", "quick", diagnostics=False)
    assert "bpda-eot" not in [record.name for record in steady.attacks]


def test_a_random_module_that_says_nothing_is_judged_as_one() -> None:
    class Noisy(Toy):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return super().forward(images + 0.2 * torch.randn_like(images))

    result = evaluate(Noisy(), toy_data(6), ThreatModel("Linf", 0.05), "adaptive", "quick", diagnostics=False)
    assert result.subject["traits"]["stochastic"]
    assert "bpda-eot" in [record.name for record in result.attacks]
    assert len(result.clean.steady) == 6


def test_a_masked_module_is_not_complete_without_attacks_that_need_no_gradient() -> None:
    class Stepped(Toy):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return super().forward((images * 8).round() / 8)

    result = evaluate(Stepped(), toy_data(6), ThreatModel("Linf", 0.05), "paper", "quick", diagnostics=False)
    assert result.subject["traits"]["gradient"] == "approximate"
    assert "no attack without gradients" in result.unmet


def test_a_module_whose_answers_depend_on_the_batch_is_never_complete() -> None:
    class Peeking(Toy):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return super().forward(images - images.mean(0, keepdim=True))

    result = evaluate(Peeking(), toy_data(6), ThreatModel("Linf", 0.05), "adaptive", "quick", diagnostics=False)
    assert result.unmet == ["no answer that is independent of the other images in its batch"]


def test_a_method_s_own_classifier_does_not_take_the_place_of_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from alu import models

    known, card = models.names, models.card
    monkeypatch.setattr(models, "names", lambda task=None: ["cifar10-soap", *known(task)])
    monkeypatch.setattr(models, "card", lambda name: card(name.replace("-soap", "-unified")))
    (other,) = other_networks(Subject(models.load("cifar10-at")), alu.data.sample("test").draw(2))
    assert bundled_name(other) == "cifar10-standard"


def test_other_networks_are_of_the_same_classes_and_not_the_one_under_attack() -> None:
    from alu import data, models

    sample = data.sample("test").take([0])
    (other,) = other_networks(Subject(models.load("cifar10-standard")), sample)
    assert Subject(other).name != "cifar10-standard"
    assert other_networks(Subject(Toy()), toy_data(2)) == ()


@pytest.mark.parametrize("name", alu.models.names("classifier"))
def test_the_other_network_is_chosen_by_the_facts_on_its_card(name: str) -> None:
    card = alu.models.card(name)
    size = card.architecture.get("size", 32)
    images = Dataset(torch.zeros((1, 3, size, size)), torch.tensor([0]), card.classes, "zeros", "test")
    family = next(family for family in ("cifar100", "cifar10", "tiny-imagenet") if name.startswith(family))
    # Committed unions were measured with this choice: the standard classifier, and the unified one for itself.
    expected = f"{family}-unified" if name == f"{family}-standard" else f"{family}-standard"
    assert [bundled_name(other) for other in other_networks(Subject(alu.models.load(name)), images)] == [expected]
    # Robust networks, and one that reads inner layers of a VAE, are no source.
    if not name.endswith("-soap"):  # which may be one, but the last
        assert _transfers(card, size) == name.endswith(("-standard", "-unified"))
    assert not _transfers(card, size + 1)


def test_a_check_meets_what_can_break_it_strongest_first_and_says_what_was_left_out() -> None:
    subject = Subject(Defense(Toy(), detector=Neighbourhood(0.01), rule="abstain"))
    chosen = attacks(subject, "quick", other_networks=(Toy(), Toy()))
    assert list(chosen) == [
        "fgsm", "pgd-20", "mim-20 elsewhere", "direct", "min-max", "confident", "straight-through", "stall",
        "unrolled search", "match", "transfer", "query",
    ]  # fmt: skip
    assert chosen["query"].attack.starts is not None
    transfer = chosen["transfer"].attack
    sources = [entry.source for entry in transfer.tries(subject.defense)]
    assert len(sources) == 2 * 3, "two strengths of its own classifier and of both other networks"
    assert unmet(subject.traits, list(chosen.values())) == []
    for name in ("min-max", "confident", "straight-through", "stall", "unrolled search", "transfer", "query"):
        assert unmet(subject.traits, [entry for entry in chosen.values() if entry.name != name]), name
    data = toy_data(6)
    settings = (subject, data, data.images, data.labels, THREAT)
    left_out = Evaluation(*settings, "adaptive", "quick", 0, 50, {}).left_out
    assert [line.partition(":")[0] for line in left_out] == [
        "surrogate", "decoy, boost, pattern, trajectory", "soft", "stealth",
    ]  # fmt: skip
    assert "stealth" in attacks(subject, "standard")
    assert len(Evaluation(*settings, "adaptive", "standard", 0, 50, {}).left_out) == 3
    assert Evaluation(Subject(toy_defense()), *settings[1:], "adaptive", "quick", 0, 50, {}).left_out == []


def test_every_bundled_network_is_a_source_against_a_check() -> None:
    sample = alu.data.sample("test").take([0])
    check = Defense(alu.models.load("cifar10-at"), detector=Neighbourhood(), rule="abstain")
    names = [bundled_name(other) for other in other_networks(Subject(check), sample)]
    assert names[0] == "cifar10-standard", "an attacker who does not know the defence uses the first"
    robust = {"cifar10-trades", "cifar10-mart", "cifar10-awp", "cifar10-gairat"}
    assert robust <= set(names)
    assert "cifar10-at" not in names
