"""Random defences: fresh draws come from other seeds, for those who attack them and for those who judge them."""

from __future__ import annotations

from itertools import cycle
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from alu import Defense
from alu.attacks import APGDCE, BPDAEOT, fooled
from alu.attacks.copies import Redrawn, redrawn
from alu.detectors import LogitShift
from alu.evaluation.result import Judged
from alu.evaluation.run import evaluate
from alu.evaluation.subject import Subject
from alu.models.vae import VAE
from alu.purifiers import Blur, Chain, LatentVAE
from alu.threat import ThreatModel
from alu.training.recipes import seeded
from tests.unit.toys import Toy, toy_data, toy_defense, toy_images


def sampled() -> LatentVAE:
    vae = seeded(lambda: VAE(channels=3, width=8, latent=4), 5).eval()
    with torch.no_grad():
        vae.encoder[-1].bias.fill_(1.0)  # type: ignore[index, operator, union-attr]
    return LatentVAE(vae, steps=1, lr=1e-2, start="sampled")


def test_another_draw_has_other_numbers_and_the_first_keeps_them() -> None:
    images = toy_images(3)
    for purifier in (sampled(), Chain(Blur(0.5), sampled())):
        first = purifier(images)
        torch.testing.assert_close(redrawn(purifier, 0)(images), first)
        other = redrawn(purifier, 1)(images)
        assert not torch.allclose(other, first)
        torch.testing.assert_close(redrawn(purifier, 1)(images), other)
        torch.testing.assert_close(purifier(images), first)  # what was given stays as it was


def test_every_call_is_another_draw_in_turn() -> None:
    defense, images = Defense(Toy(), sampled(), rule="purified"), toy_images(2).requires_grad_(True)
    asked = Redrawn(defense, 3)
    seen = [asked(images) for _ in range(6)]
    assert not torch.allclose(seen[0], seen[1])
    for first, second in zip(seen[:3], seen[3:], strict=True):
        torch.testing.assert_close(first, second)
    # A round ends with the deployed draw, which alone answers who wants no gradient.
    torch.testing.assert_close(seen[2], defense(images))
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(asked(images), defense(images))


def test_apgd_over_draws_breaks_what_is_deployed() -> None:
    defense, images = Defense(Toy(), sampled(), rule="purified"), toy_images(30)
    labels = defense.decide(images).label
    one, many = (
        int(fooled(defense, APGDCE(eps=0.03, steps=10, draws=draws)(defense, images, labels), labels).sum())
        for draws in (1, 10)
    )
    assert one >= 10
    assert many >= one // 2


def test_a_steady_module_has_nothing_to_redraw() -> None:
    layer = nn.Linear(2, 2)
    assert redrawn(layer, 5).weight is layer.weight


def test_a_random_defence_is_attacked_over_draws_and_judged_on_fresh_ones() -> None:
    defense = Defense(Toy(), sampled(), LogitShift(0.05), "alu", "input").calibrate(toy_images(60, seed=9))
    assert defense.traits.stochastic
    result = evaluate(defense, toy_data(6), ThreatModel("Linf", 0.05), "adaptive", "quick", diagnostics=False)
    assert "bpda-eot" in [record.name for record in result.attacks]
    assert result.complete, result.unmet
    assert len(result.clean.steady) == 6
    steady = evaluate(toy_defense(), toy_data(6), ThreatModel("Linf", 0.05), "adaptive", "quick", diagnostics=False)
    assert "bpda-eot" not in [record.name for record in steady.attacks]


def test_resubmissions_are_fresh_draws() -> None:
    class Noisy(LatentVAE):
        """One that turns every second draw's images over."""

        def run(self, images: torch.Tensor) -> torch.Tensor:
            return images if self.seed == 0 else 1 - images

        def _exact(self, images: torch.Tensor, reconstruct: bool):  # type: ignore[no-untyped-def]
            from alu.purifiers.base import Purification

            return Purification(self.run(images))

    defense = Defense(Toy(), Noisy(sampled().vae, steps=0, start="sampled"), rule="purified")
    result = evaluate(defense, toy_data(6), ThreatModel("Linf", 0.01), "oblivious", "quick", diagnostics=False)
    assert min(result.clean.steady) <= 0.2, "only the deployed draw of ten leaves the image as it is"
    assert result.clean_accuracy < 1.0, "the worst of ten counts"


def test_bpda_averages_over_draws() -> None:
    defense = Defense(Toy(), sampled(), rule="purified")
    data = toy_data(4)
    one, many = (BPDAEOT(draws=draws, steps=3, eps=0.05)(defense, data.images, data.labels) for draws in (1, 8))
    assert not torch.equal(one, many)


class Scripted(nn.Module):
    """A defence whose draws answer as they are told: the label or None (rejected) of each draw in turn."""

    def __init__(self, answers: list[int | None]) -> None:
        super().__init__()
        self.answers = cycle(answers)  # shared by copies, as a stream of random numbers would be

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(self.decide(images).label, 2).float()

    def decide(self, images: torch.Tensor) -> SimpleNamespace:
        told = next(self.answers)
        count = len(images)
        label = torch.full((count,), 0 if told is None else told)
        return SimpleNamespace(label=label, accepted=torch.full((count,), told is not None))


@pytest.mark.parametrize(
    ("draws", "answer", "accepted", "steady"),
    [
        ([None] * 3 + [1] * 7, -1, True, 0.0),
        ([0] * 3 + [None] * 7, 0, False, 0.3),
        ([0] * 10, 0, True, 1.0),
        ([0] * 9 + [1], -1, True, 0.9),
    ],
)
def test_the_worst_draw_counts(draws: list[int | None], answer: int, accepted: bool, steady: float) -> None:
    subject = Subject(Scripted(draws))
    first = draws[0]
    made = Judged(images=[0], answer=[0 if first is None else first], accepted=[first is not None])
    subject._resubmit(torch.zeros(1, 3, 4, 4), torch.tensor([0]), made)
    assert (made.answer, made.accepted) == ([answer], [accepted])
    assert made.steady == pytest.approx([steady])


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
    assert result.unmet == ["no answers to each image alone (they change with the batch)"]
