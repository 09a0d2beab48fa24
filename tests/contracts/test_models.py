"""What every architecture promises."""

from __future__ import annotations

import pytest
import torch

from alu.models import rebuild, unet, vae, weight_hash
from alu.training.recipes import seeded
from tests.contracts.parts import MODELS, images_like

every = pytest.mark.parametrize("name", list(MODELS))


@every
@pytest.mark.parametrize(
    ("shape", "classes"),
    [((3, 32, 32), 10), ((1, 28, 28), 2), ((3, 64, 64), 200), ((4, 32, 32), 100), ((3, 32, 48), 10)],
)
def test_logits(name: str, shape: tuple[int, int, int], classes: int) -> None:
    model = MODELS[name](shape, classes).eval()
    images = images_like(2, shape)
    with torch.no_grad():
        assert model(images).shape == (2, classes)
        assert model.double()(images.double()).dtype == torch.float64


@every
def test_a_model_knows_how_it_was_made(name: str) -> None:
    shape = (3, 32, 32)
    model = seeded(lambda: MODELS[name](shape, 7), 0).eval()
    again = rebuild(model.architecture).eval()  # type: ignore[arg-type]
    again.load_state_dict(model.state_dict())
    images = images_like(2, shape)
    with torch.no_grad():
        assert torch.equal(again(images), model(images))
    assert weight_hash(again) == weight_hash(model)


@every
def test_one_image_does_not_depend_on_the_others(name: str) -> None:
    shape = (3, 32, 32)
    model = MODELS[name](shape, 5).eval().double()
    images = images_like(4, shape).double()
    with torch.no_grad():
        torch.testing.assert_close(model(images)[1:3], model(images[1:3]), rtol=0, atol=1e-10)


def test_equal_seeds_give_equal_weights_and_leave_the_global_state() -> None:
    state = torch.get_rng_state()
    first, second, third = (seeded(lambda: MODELS["resnet18"]((3, 32, 32), 10), seed) for seed in (1, 1, 2))
    assert weight_hash(first) == weight_hash(second) != weight_hash(third)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (4, 64, 64), (3, 32, 48)])
def test_vae_and_unet_keep_the_shape(shape: tuple[int, int, int]) -> None:
    images = images_like(2, shape)
    model = vae(channels=shape[0], latent=5, width=16)
    mean, logvar = model.encode(images)
    assert mean.shape == logvar.shape == (2, 5, shape[1] // 4, shape[2] // 4)
    assert model.decode(mean).shape == images.shape
    assert torch.equal(unet(channels=shape[0], width=8)(images), images), "an untrained denoiser changes nothing"


def test_third_party_checkpoint(shared_data: object) -> None:
    from pathlib import Path

    from alu import data
    from alu.models import load_weights, resnet20

    assert isinstance(shared_data, Path)
    model = load_weights(resnet20(), shared_data / "resnet20-cifar10-akamaster.th")
    sample = data.sample("test")
    with torch.no_grad():
        right = (model(sample.images).argmax(1) == sample.labels).float().mean()
    assert 0.89 <= float(right) <= 0.95  # 91.73 % on the whole test set, give or take 2.5 standard errors
