"""Label consistency and contrast against values worked out by hand, and what of a network learns."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from alu import models
from alu.purifiers import SOAP
from alu.rng import generator
from alu.training.batches import Batch, Draws
from alu.training.recipes import seeded
from alu.training.self_supervised import Contrasting, LabelConsistency, two_views
from tests.contracts.parts import awake, images_like
from tests.toys import Brightness, batch


def drawn(images: Tensor, labels: Tensor) -> Batch:
    return Batch(images, labels, Draws(generator(0, "test"), slice(0, len(images)), len(images)))


def test_both_views_are_classified_and_compared() -> None:
    class Given(nn.Module):
        """Two images, first both first views, then both second ones."""

        def forward(self, images: Tensor) -> Tensor:
            assert len(images) == 4
            return torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 3.0]])

    given = drawn(torch.full((2, 1, 8, 8), 0.5), torch.tensor([0, 1]))
    loss, parts = LabelConsistency(weight=10.0).loss(Given(), given)
    entropy = sum(math.log(1 + math.exp(-gap)) for gap in (2.0, 1.0, 1.0, 3.0)) / 4
    apart = ((2.0 - 1.0) ** 2 + (1.0 - 3.0) ** 2) / 4
    assert float(parts["apart"]) == pytest.approx(apart)
    assert float(loss) == pytest.approx(entropy + 10.0 * apart)
    assert float(parts["accuracy"]) == 1.0


def test_views_differ_and_noise_is_added_inside_the_box() -> None:
    seen: list[Tensor] = []

    class Watched(Brightness):
        def forward(self, images: Tensor) -> Tensor:
            seen.append(images.detach())
            return super().forward(images)

    LabelConsistency(noise=0.1).loss(Watched(), batch(0.6, 0.95))
    first, second = seen[0].chunk(2)
    # Even images look the same in every view but for their light: what is left is noise.
    assert 0.05 < float(first[0].std()) < 0.15
    assert not torch.allclose(first, second)
    assert float(seen[0].max()) <= 1.0


def test_two_views_are_those_of_the_batch_s_own_numbers() -> None:
    images = images_like(3, (3, 16, 16))
    first, again = (two_views(drawn(images, torch.zeros(3))) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == (6, 3, 16, 16)
    assert not torch.allclose(first[:3], first[3:])


def test_held_out_figures_are_accuracy_and_what_soap_lowers() -> None:
    images = images_like(4, (3, 16, 16))
    model = seeded(lambda: models.resnet18(5, width=8), 0).eval()
    labels = model(images).argmax(1)
    found = LabelConsistency().measure(model, images, labels)
    assert next(iter(found)) == "accuracy"
    assert found["accuracy"].tolist() == [1.0] * 4
    torch.testing.assert_close(found["inconsistency"], SOAP(model).inconsistency(images))


class Known(nn.Module):
    """Two images: the vectors of their views are given; the backbone only counts views."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.given = nn.Parameter(vectors)
        self.backbone = self

    def features(self, images: Tensor) -> Tensor:
        assert not torch.is_grad_enabled()
        return torch.arange(len(images))

    def vectors(self, features: Tensor) -> Tensor:
        return self.given[features]


def test_a_view_is_told_from_the_views_of_other_images() -> None:
    angles = torch.tensor([0.0, 1.0, 0.3, 2.0])  # first views of images 0 and 1, then their second views
    model = Known(torch.stack([angles.cos(), angles.sin()], 1))
    loss, parts = Contrasting(temperature=0.5).loss(model, drawn(torch.zeros(2, 1, 4, 4), torch.zeros(2)))

    def of(own: float, other: float, *negatives: float) -> float:
        weights = [math.exp(math.cos(own - angle) / 0.5) for angle in (other, *negatives)]
        return -math.log(weights[0] / sum(weights))

    expected = [of(0.0, 0.3, 1.0, 2.0), of(1.0, 2.0, 0.0, 0.3), of(0.3, 0.0, 1.0, 2.0), of(2.0, 1.0, 0.0, 0.3)]
    assert float(loss.detach()) == pytest.approx(sum(expected) / 4, rel=1e-5)
    assert float(parts["alike"].detach()) == pytest.approx((math.cos(0.3) + math.cos(1.0)) / 2, rel=1e-5)


def test_only_the_head_learns_and_the_backbone_keeps_its_statistics() -> None:
    model = awake(seeded(lambda: models.contrastive(width=8, code=8, negatives=5), 0))
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    given = drawn(images_like(4, (3, 16, 16)), torch.zeros(4))
    loss, _ = Contrasting().loss(model, given)
    loss.backward()
    learns = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert learns == {name for name, _ in model.named_parameters() if name.startswith("head.")}
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert model.training
    assert not any(part.training for part in model.backbone.modules())
    found = Contrasting().measure(model.eval(), given.images, given.labels)
    assert found["info_nce"].shape == (4,)
    torch.testing.assert_close(found["info_nce"], Contrasting().measure(model, given.images, given.labels)["info_nce"])
