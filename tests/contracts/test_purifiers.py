"""What every purifier promises."""

from __future__ import annotations

import pytest
import torch

from alu.errors import InputError, UsageError
from alu.purifiers import Purifier
from tests.contracts.parts import PURIFIERS, images_like

SHAPE = (3, 32, 32)
every = pytest.mark.parametrize("name", list(PURIFIERS))


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_range_and_dtype_are_kept_and_the_input_is_not_changed(name: str, dtype: torch.dtype) -> None:
    purifier = PURIFIERS[name](SHAPE).to(dtype)
    images = images_like(5, SHAPE).to(dtype)
    before = images.clone()
    done = purifier(images)
    assert done.shape == images.shape
    assert done.dtype == dtype
    assert 0.0 <= float(done.min()) <= float(done.max()) <= 1.0
    assert torch.equal(images, before)
    assert not done.requires_grad


@every
@pytest.mark.parametrize("shape", [(1, 28, 28), (4, 32, 32), (3, 64, 64), (3, 32, 48), (1, 30, 45)])
def test_channels_and_sizes(name: str, shape: tuple[int, int, int]) -> None:
    images = images_like(2, shape)
    assert PURIFIERS[name](shape)(images).shape == images.shape


@every
def test_order_subset_and_batch_size_do_not_matter(name: str) -> None:
    purifier = PURIFIERS[name](SHAPE).double()
    images = images_like(6, SHAPE).double()
    whole = purifier(images)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(purifier(images[order]), whole[order], rtol=0, atol=1e-4)
    torch.testing.assert_close(purifier(images[2:4]), whole[2:4], rtol=0, atol=1e-4)
    single = torch.cat([purifier(image[None]) for image in images])
    torch.testing.assert_close(single, whole, rtol=0, atol=1e-4)


@every
def test_same_bits_again_and_the_global_random_state_is_untouched(name: str) -> None:
    images = images_like(4, SHAPE)
    state = torch.get_rng_state()
    first, second = PURIFIERS[name](SHAPE), PURIFIERS[name](SHAPE)
    assert torch.equal(first(images), first(images))
    assert torch.equal(first(images), second(images))
    assert torch.equal(torch.get_rng_state(), state)


@every
def test_parameters_and_modes_are_left_alone(name: str) -> None:
    purifier = PURIFIERS[name](SHAPE)
    purifier.train()
    for number, weight in enumerate(purifier.parameters()):
        weight.requires_grad_(number % 2 == 0)
        if number % 2 == 0:
            weight.grad = torch.full_like(weight, 2.0)
    before = [(w.clone(), w.requires_grad, None if w.grad is None else w.grad.clone()) for w in purifier.parameters()]
    modes = [part.training for part in purifier.modules()]
    statistics = {key: value.clone() for key, value in purifier.state_dict().items()}
    images = images_like(3, SHAPE).requires_grad_(True)
    torch.autograd.grad(purifier(images).sum(), images)
    for weight, (value, wanted, grad) in zip(purifier.parameters(), before, strict=True):
        assert torch.equal(weight, value)
        assert weight.requires_grad == wanted
        assert (weight.grad is None) == (grad is None)
        assert grad is None or torch.equal(weight.grad, grad)
    assert modes == [part.training for part in purifier.modules()]
    for key, value in purifier.state_dict().items():
        assert torch.equal(value, statistics[key]), f"{key} was changed"


@every
def test_train_mode_does_not_change_the_answer(name: str) -> None:
    images = images_like(3, SHAPE)
    purifier = PURIFIERS[name](SHAPE).eval()
    in_eval_mode = purifier(images)
    assert torch.equal(purifier.train()(images), in_eval_mode)


@every
def test_works_without_gradients_and_in_inference_mode(name: str) -> None:
    purifier = PURIFIERS[name](SHAPE)
    images = images_like(3, SHAPE)
    plain = purifier(images)
    with torch.no_grad():
        assert torch.equal(purifier(images), plain)
    with torch.inference_mode():
        assert torch.equal(purifier(images), plain)
        assert torch.equal(purifier(images.clone()), plain)


@every
def test_no_images_give_no_images(name: str) -> None:
    assert PURIFIERS[name](SHAPE)(torch.empty(0, *SHAPE)).shape == (0, *SHAPE)


@every
def test_rebuilt_from_its_description(name: str) -> None:
    purifier = PURIFIERS[name](SHAPE)
    images = images_like(3, SHAPE)
    again = Purifier.rebuild(purifier.description())
    again.load_state_dict(purifier.state_dict())
    assert type(again) is type(purifier)
    assert torch.equal(again(images), purifier(images))


@every
@pytest.mark.parametrize("grad_mode", ["bpda", "surrogate", "unrolled", "implicit"])
def test_every_gradient_mode_has_the_same_value_and_a_finite_gradient(name: str, grad_mode: str) -> None:
    purifier = PURIFIERS[name](SHAPE).double()
    images = images_like(2, SHAPE).double()
    plain = purifier(images)
    attacked = images.clone().requires_grad_(True)
    done = purifier(attacked, grad_mode)
    torch.testing.assert_close(done.detach(), plain, rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(done.square().sum(), attacked)
    assert torch.isfinite(gradient).all()
    assert float(gradient.abs().max()) > 0


@every
def test_the_reconstruction_is_the_output_before_any_step(name: str) -> None:
    purifier = PURIFIERS[name](SHAPE)
    if not purifier.has_reconstruction:
        with pytest.raises(UsageError, match="has none"):
            purifier.purify(images_like(1, SHAPE), reconstruct=True)
        return
    images = images_like(3, SHAPE)
    plain = purifier.purify(images, reconstruct=True).reconstruction
    with torch.no_grad():
        assert torch.equal(plain, purifier.reconstruct(images).clamp(0, 1))
    for grad_mode in ("bpda", "surrogate", "unrolled", "implicit"):
        attacked = images.clone().requires_grad_(True)
        differentiable = purifier.purify(attacked, grad_mode, reconstruct=True).reconstruction
        torch.testing.assert_close(differentiable.detach(), plain, rtol=0, atol=1e-6)
        assert differentiable.requires_grad, "an attacker of the reconstruction reading needs its gradient"


@every
def test_refuses_what_is_no_image(name: str) -> None:
    purifier = PURIFIERS[name](SHAPE)
    images = images_like(2, SHAPE)
    with pytest.raises(InputError, match=r"\[N, C, H, W\]"):
        purifier(images[0])
    with pytest.raises(InputError, match="Divide by 255"):
        purifier(images * 255)
    with pytest.raises(InputError, match="Divide by 255"):
        purifier((images * 255).to(torch.uint8))
    with pytest.raises(InputError, match="NaN"):
        purifier(images.masked_fill(images > 0.5, float("nan")))
    with pytest.raises(InputError, match="NaN or infinite"):
        purifier(images.masked_fill(images > 0.5, float("inf")))
    with pytest.raises(InputError, match="Normalize"):
        purifier(images * 2 - 1)
