"""The neighbourhood check: what it refuses on a linear classifier, where the right answer is known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import alu
from alu.attacks import fooled
from alu.check import AluWarning
from alu.detectors import Neighbourhood
from alu.errors import NoGradientError, UsageError
from alu.evaluation.evaluate import prepare
from alu.threat import ThreatModel
from tests.linear import RADII, Linear, linear_data
from tests.toys import Toy, toy_data, toy_images


def check(model: Any, radius: float = 2 / 255, **settings: Any) -> alu.Defense:
    return alu.Defense(model, detector=Neighbourhood(radius, **settings), rule="abstain")


@pytest.mark.parametrize("radius", RADII)
def test_it_refuses_exactly_what_has_another_answer_nearby(radius: int) -> None:
    model, data = Linear(), linear_data()
    decision = check(model, radius / 255).decide(data.images)
    assert torch.equal(decision.accepted, data.distance > radius)
    assert torch.equal(decision.flagged, ~decision.accepted)
    # The worst neighbour of a linear classifier is `radius` nearer to the boundary.
    torch.testing.assert_close(
        decision.score[decision.accepted], (radius - data.distance)[decision.accepted] * model.slope, rtol=0, atol=1e-3
    )


def test_the_search_stays_in_the_ball_and_in_the_picture() -> None:
    seen: list[Tensor] = []

    class Watched(Toy):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(images.detach().clone())
            return super().forward(images)

    images = toy_images(3)
    check(Watched(), 0.1, restarts=2, targets=2).decide(images[:1])
    assert len(seen) >= 3
    for asked in seen:
        assert float((asked - images[:1]).abs().max()) <= 0.1 + 1e-6
        assert 0.0 <= float(asked.min()) <= float(asked.max()) <= 1.0


def test_an_image_leaves_as_soon_as_another_answer_is_found() -> None:
    model, data = Linear(), linear_data()
    asked: list[int] = []
    model.register_forward_hook(lambda module, inputs, output: asked.append(len(output)))
    near = data.images[data.distance < 1.5]
    check(model, steps=10).decide(near)
    # The answer; the gradient at the image; one step to the edge; the score. Rounding may ask for one more.
    assert sum(asked) <= 5 * len(near)


def asked_by(model: nn.Module, call: Any) -> int:
    """How many images go through the classifier during a call."""
    asked: list[int] = []
    handle = model.register_forward_hook(lambda module, inputs, output: asked.append(len(output)))
    call()
    handle.remove()
    return sum(asked)


def test_logits_and_tests_of_success_cost_no_search_that_they_do_not_need() -> None:
    model, data = Linear(), linear_data(20)
    defense = check(model)
    assert asked_by(model, lambda: defense(data.images)) == 20, "the logits do not depend on what a search finds"
    assert asked_by(model, lambda: fooled(defense, data.images, data.own)) == 20, "a right answer is no success"
    wrong = 1 - data.own
    decision = defense.decide(data.images)
    assert torch.equal(fooled(defense, data.images, wrong), decision.accepted)
    one = data.own.clone()
    place = int(decision.accepted.nonzero()[0])
    one[place] = wrong[place]
    assert fooled(defense, data.images, one).nonzero().flatten().tolist() == [place]
    assert asked_by(model, lambda: fooled(defense, data.images, one)) <= 20 + 12, "the search of one image"


def test_one_answer_does_not_depend_on_the_others() -> None:
    defense, images = check(Toy(), 0.05, restarts=3), toy_images(8)
    whole = defense.decide(images)
    for place in range(8):
        alone = defense.decide(images[place : place + 1])
        assert bool(alone.accepted) == bool(whole.accepted[place])
        torch.testing.assert_close(alone.score[0], whole.score[place], rtol=1e-4, atol=1e-5)


def test_more_searching_only_refuses_more() -> None:
    images = toy_images(40)
    one = check(Toy(), 0.08, steps=1).decide(images).accepted
    many = check(Toy(), 0.08, steps=20, restarts=3, targets=4).decide(images).accepted
    assert not bool((many & ~one).any())
    assert int(many.sum()) < 40


def test_the_score_has_the_gradient_at_the_neighbour() -> None:
    model, data = Linear(), linear_data()
    defense = check(model)
    images = data.images[:4].clone().requires_grad_(True)
    assert defense.detector is not None
    score = defense.detector.score(defense.evidence(images))
    (gradient,) = torch.autograd.grad(score.sum(), images)
    away = torch.where(data.own[:4] == 0, -1.0, 1.0)[:, None] * model.direction
    torch.testing.assert_close(gradient.flatten(1), away, rtol=1e-4, atol=1e-4)


def test_p_values_come_from_clean_images_where_there_are_some() -> None:
    defense, data = check(Linear()), linear_data()
    assert defense.decide(data.images[:3]).p_value.isnan().all()
    defense.calibrate(data.images)
    decision = defense.decide(data.images)
    assert bool((decision.p_value > 0).all())
    assert torch.equal(decision.flagged, decision.score > 0), "a p-value is told, it does not decide"
    for ask in (defense.decide, lambda images: fooled(defense, images, torch.zeros(1, dtype=torch.int64))):
        with pytest.raises(alu.AluError, match="calibrated on images of 3 x 6 x 6"):
            ask(torch.rand(1, 3, 8, 8))


def test_it_is_saved_and_loaded(tmp_path: Any) -> None:
    defense, data = check(Linear(), 3 / 255, steps=4, restarts=2, targets=1), linear_data()
    defense.save(tmp_path / "check", factory="tests.linear:Linear")
    again = alu.Defense.load(tmp_path / "check", classifier=Linear())
    assert again.detector is not None
    assert defense.detector is not None
    assert again.detector.description() == defense.detector.description()
    assert torch.equal(again.decide(data.images).accepted, defense.decide(data.images).accepted)


def test_traits() -> None:
    assert check(Toy()).traits.search
    assert check(Toy()).traits.detector
    assert not check(Toy()).traits.stochastic
    assert check(Toy(), restarts=2).traits.stochastic
    assert not alu.Defense(Toy(), detector=Neighbourhood(), rule="purified").traits.search


class WithoutGradient(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return Toy()(images.detach()).detach()


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: Neighbourhood(radius=0.0), UsageError, "radius above 0 and below 1"),
        (lambda: Neighbourhood(radius=2.0), UsageError, "radius above 0 and below 1"),
        (lambda: Neighbourhood(steps=0), UsageError, "at least 1 step"),
        (lambda: Neighbourhood(targets=-1), UsageError, "0 targets or more"),
        (lambda: check(WithoutGradient()).decide(toy_images(2)), NoGradientError, "this classifier has none"),
        (
            lambda: alu.Defense(Toy(), alu.purifiers.Blur(), Neighbourhood(), "abstain"),
            UsageError,
            "Leave the purifier out",
        ),
    ],
)
def test_bad_input_is_one_sentence(build: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build()


def test_a_radius_that_the_attacker_cannot_reach_is_doubted() -> None:
    data = toy_data(8)

    def prepared(detector: Any, model: Any, norm: Any, eps: float) -> None:
        prepare(alu.Defense(model, detector=detector, rule="abstain"), data, threat=ThreatModel(norm, eps), bare=False)

    words = "Neighbourhood looks 4/255 around each picture, .* by 2/255 at most: a radius of 1/255 promises as much"
    with pytest.warns(AluWarning, match=words):
        prepared(Neighbourhood(4 / 255), Toy(), "Linf", 2 / 255)
    smoothed = alu.models.Smoothed(Toy(), sigma=0.25, draws=2)
    certificate = alu.detectors.Certificate(0.1, n=100, n0=10)
    with pytest.warns(AluWarning, match=r"Certificate looks 0\.1 around each picture, .* a radius of 0\.05 promises"):
        prepared(certificate, smoothed, "L2", 0.1)
    # Below eps, and where the attacker's ball is of another kind, there is nothing to say.
    prepared(Neighbourhood(4 / 255), Toy(), "Linf", 8 / 255)
    prepared(Neighbourhood(4 / 255), Toy(), "L2", 1 / 255)


class Fickle(nn.Module):
    """Linear, but what it says of a point depends on how many others are asked with it, as in float arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Linear()

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner(images)
        return logits + (1e-4 if len(images) > 3 else -1e-4) * torch.tensor([1.0, -1.0])


def test_another_answer_that_the_search_has_seen_is_not_forgotten() -> None:
    # Two images leave after the first step, so that the others are asked in a smaller batch, where margins are others.
    model = Fickle()
    data = linear_data()
    near, far = data.images[data.distance < 1][:2], data.images[(data.distance > 2) & (data.own == 0)][:2]
    detector = Neighbourhood(2 / 255, steps=4)
    evidence = alu.Defense(model, detector=detector, rule="abstain").evidence(torch.cat([near, far]))
    own = evidence.post_logits.argmax(1)
    with torch.no_grad():
        _, seen = detector.search(evidence, own)
        assert torch.equal(detector.score(evidence), seen)
    images = torch.cat([near, far]).requires_grad_(True)
    score = detector.score(alu.Defense(model, detector=detector, rule="abstain").evidence(images))
    assert torch.equal(score.detach(), seen), "with a gradient the value is the same"
    assert score.requires_grad


def test_a_search_that_does_not_stop_can_be_followed_point_by_point() -> None:
    data = linear_data(5)
    detector = Neighbourhood(2 / 255, steps=3)
    evidence = alu.Defense(Linear(), detector=detector, rule="abstain").evidence(data.images)
    seen: list[tuple[Tensor, Tensor, Tensor | None]] = []
    _, highest = detector.search(evidence, data.own, stop=False, visit=lambda *point: seen.append(point))
    assert len(seen) == 4
    assert torch.equal(seen[0][0], data.images)
    assert torch.equal(torch.stack([margin for _, margin, _ in seen]).amax(0), highest)
    assert [gradient is None for _, _, gradient in seen] == [False, False, False, True]
