"""Torch functions as ONNX graphs: gradients inside, any number of images, and sentences about what does not work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from alu import tracing
from alu.errors import InputError, MissingExtraError
from alu.rng import generator
from alu.tracing import COUNT, write_graph


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=generator(seed, "tracing", shape))


CONVOLUTIONS = {
    "plain": ((4, 3, 3, 3), {}),
    "padded": ((4, 3, 3, 3), {"padding": 1}),
    "wide padding": ((4, 3, 3, 3), {"padding": 4}),
    "stride": ((4, 3, 4, 4), {"stride": 2, "padding": 1}),
    "stride that leaves rows over": ((4, 3, 3, 3), {"stride": 3}),
    "uneven": ((4, 3, 3, 5), {"stride": (2, 1), "padding": (1, 2)}),
    "dilated": ((4, 3, 3, 3), {"dilation": 2, "padding": 2}),
    "groups": ((6, 1, 3, 3), {"groups": 3, "padding": 1}),
}


def expected(function: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Tensor]:
    """Something to multiply with, and the gradient of the product."""
    at = at.clone().requires_grad_(True)
    output = function(at)
    towards = drawn(*output.shape, seed=1)
    (gradient,) = torch.autograd.grad((output * towards).sum(), at)
    return towards, gradient


def pair(value: int | tuple[int, int]) -> list[int]:
    return list(value) if isinstance(value, tuple) else [value] * 2


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("transposed", [False, True])
def test_the_gradient_of_a_convolution(name: str, transposed: bool) -> None:
    shape, settings = CONVOLUTIONS[name]
    weight, at = drawn(*shape), drawn(2, shape[0] if transposed else shape[1] * settings.get("groups", 1), 11, 12)
    convolution = F.conv_transpose2d if transposed else F.conv2d
    towards, gradient = expected(lambda value: convolution(value, weight, **settings), at)
    stride, padding, dilation = (
        pair(settings.get(key, usual)) for key, usual in (("stride", 1), ("padding", 0), ("dilation", 1))
    )
    groups = settings.get("groups", 1)
    mask = [True, False, False]
    found, *rest = tracing._convolution_backward(
        towards, at, weight, None, stride, padding, dilation, transposed, [0, 0], groups, mask
    )
    torch.testing.assert_close(found, gradient)
    assert rest == [None, None]


def test_gradients_of_weights_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="gradients of weights"):
        tracing._convolution_backward(
            drawn(1, 1, 2, 2), drawn(1, 1, 3, 3), drawn(1, 1, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
            [True, True, False],
        )  # fmt: skip


@pytest.mark.parametrize(("size", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (2, 3, 0)])
def test_the_gradients_of_pools(size: int, stride: int, padding: int) -> None:
    at, shape = drawn(2, 3, 9, 10), ([size] * 2, [stride] * 2, [padding] * 2)
    towards, gradient = expected(lambda value: F.avg_pool2d(value, *shape), at)
    torch.testing.assert_close(tracing._average_pool_backward(towards, at, *shape, False, True, None), gradient)
    towards, gradient = expected(lambda value: F.max_pool2d(value, *shape), at)
    _, places = F.max_pool2d(at, *shape, return_indices=True)
    torch.testing.assert_close(tracing._max_pool_backward(towards, at, *shape, [1, 1], False, places), gradient)


def test_averages_over_fewer_values_at_the_edge_are_refused() -> None:
    at = drawn(1, 1, 4, 4)
    with pytest.raises(NotImplementedError, match="at the edge"):
        tracing._average_pool_backward(at, at, [3, 3], [1, 1], [1, 1], False, False, None)


@pytest.mark.parametrize("count", [1, 4, 5])
def test_medians(count: int) -> None:
    values = drawn(3, count, 2)
    for found, truth in zip(tracing._median(values, 1), values.median(1), strict=True):
        assert torch.equal(found, truth)
    assert tracing._median(values, 1, True)[0].shape == (3, 1, 2)


def test_places_in_a_sorted_list() -> None:
    ordered, values = torch.tensor([1.0, 2.0, 2.0, 3.0]), torch.tensor([0.0, 2.0, 2.5, 9.0])
    assert torch.equal(tracing._searchsorted(ordered, values), torch.searchsorted(ordered, values))
    with pytest.raises(NotImplementedError):
        tracing._searchsorted(ordered, values, right=True)


def climbed(images: Tensor, others: Tensor, size: Tensor) -> dict[str, Tensor]:
    """A function with a gradient inside, and with in-place changes."""
    at = images.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        value = (F.avg_pool2d(F.silu(at), 2) * others[:, :, ::2, ::2]).square().sum()
    (gradient,) = torch.autograd.grad(value, at)
    moved = images.clone()
    moved.add_(gradient * size)
    return {"next.images": moved, "largest": moved.flatten(1).amax(1)}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tracing") / "climb.onnx"
    images = torch.zeros(COUNT, 2, 4, 4)
    # One tensor for two inputs: they must stay two inputs.
    found = write_graph(climbed, {"images": images, "others": images, "size": torch.tensor(1.0)}, path)
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "next.images": (COUNT, 2, 4, 4),
        "largest": (COUNT,),
    }
    return path


@pytest.mark.parametrize("count", [1, 2, COUNT, 10])
def test_a_gradient_inside_and_any_number_of_images(graph: Path, count: int) -> None:
    images, others, size = drawn(count, 2, 4, 4), drawn(count, 2, 4, 4, seed=2), torch.tensor(0.3)
    session = onnxruntime.InferenceSession(str(graph))
    given = {"images": images.numpy(), "others": others.numpy(), "size": size.numpy()}
    for found, truth in zip(session.run(None, given), climbed(images, others, size).values(), strict=True):
        np.testing.assert_allclose(found, truth.numpy(), rtol=1e-5, atol=1e-6)


def test_the_file_says_nothing_about_this_machine(graph: Path) -> None:
    assert all(not node.metadata_props for node in onnx.load(str(graph)).graph.node)
    assert str(Path(__file__).parents[2]).encode() not in graph.read_bytes()


def test_what_looks_at_values_is_one_sentence(tmp_path: Path) -> None:
    def nosy(images: Tensor) -> dict[str, Tensor]:
        return {"out": images if images.mean() > 0 else -images}

    with pytest.raises(InputError, match=r"cannot be exported: nosy could not be .* graph \(.*look at values"):
        write_graph(nosy, {"images": torch.zeros(COUNT, 1, 2, 2)}, tmp_path / "nosy.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing.refuse_missing()
    monkeypatch.setattr(tracing, "find_spec", lambda name: None if name == "onnxscript" else True)
    with pytest.raises(MissingExtraError, match=r"needs the package onnxscript.*\[export\]"):
        tracing.refuse_missing()
