"""A torch function as an ONNX graph, gradients inside it included, for any number of images."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from alu.errors import InputError, MissingExtraError

aten = torch.ops.aten
COUNT = 7
"""How many images stand for any number of them while a graph is traced."""
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
"""What an export needs beyond torch."""
Function = Callable[..., Mapping[str, Tensor]]


def refuse_missing() -> None:
    """Raise an error that names the extra if a package is not installed."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise MissingExtraError("alu.export", package, "export")


def write_graph(function: Function, inputs: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Write the graph of a function as an ONNX file.

    `torch.export` refuses a gradient inside a function. So the function is first traced into plain operations, the
    gradient's among them, and these are exported.

    Parameters
    ----------
    function
        Takes one tensor for each of `inputs`, in that order, and returns tensors by name.
    inputs
        By name, tensors of the right shapes; their values do not matter. The first axis of those that have any is that
        of images, of length `COUNT`, and the only one that may have another length later.
    path
        The file.

    Returns
    -------
        Tensors of the shapes of the outputs, by name: inputs of the next graph.
    """
    import onnx

    # Copies: of one tensor under two names the graph would have one input.
    example = tuple(tensor.detach().clone() for tensor in inputs.values())
    images = {0: torch.export.Dim.DYNAMIC}
    with _quiet():
        try:
            graph, names = _traced(function, example)
            shapes = tuple(images if tensor.ndim else None for tensor in example)
            program = torch.export.export(graph, example, dynamic_shapes=shapes)
            model: Any = torch.onnx.export(program, input_names=list(inputs), output_names=names, verbose=False)
        except Exception as error:  # of torch, of the exporter, or of the user's own classifier
            raise InputError(
                f"This defence cannot be exported: {path.stem} could not be turned into a graph ({_reason(error)}). "
                "Its parts must be made of torch operations that ONNX has and that do not look at values."
            ) from error
    proto = model.model_proto
    for node in proto.graph.node:
        del node.metadata_props[:]  # which line of which file it came from, on this machine
    onnx.save(proto, str(path))
    with torch.no_grad():
        return dict(zip(names, graph(*example), strict=True))


def _traced(function: Function, example: Sequence[Tensor]) -> tuple[nn.Module, list[str]]:
    """The operations of a function as a module, and the names of its outputs."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
    from torch.nn.attention import SDPBackend, sdpa_kernel

    names: list[str] = []

    def listed(*tensors: Tensor) -> list[Tensor]:
        outputs = function(*tensors)
        names[:] = outputs
        return [tensor.detach() for tensor in outputs.values()]

    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    shapes: list[Any] = [
        StatelessSymbolicContext([DimDynamic.DUCK if axis == 0 else DimDynamic.STATIC for axis in range(tensor.ndim)])
        for tensor in example
    ]
    stand_ins = [
        mode.from_tensor(tensor, symbolic_context=shape) for tensor, shape in zip(example, shapes, strict=True)
    ]
    # Attention by its formula: its fast versions have gradients that ONNX has no operations for.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        graph = make_fx(listed, _decompositions(), "symbolic", _allow_non_fake_inputs=True)(*stand_ins)
    return graph, names


def _decompositions() -> dict[Any, Callable[..., Any]]:
    """What ONNX has no operation for, in operations that it has: everything that a gradient is made of, medians, and
    places in a sorted list."""
    known: Any = torch._decomp.core_aten_decompositions()
    backward = {op: way for op, way in known.items() if "backward" in str(op)}
    return backward | {
        aten.avg_pool2d_backward.default: _average_pool_backward,
        aten.convolution_backward.default: _convolution_backward,
        aten.max_pool2d_with_indices_backward.default: _max_pool_backward,
        aten.median.dim: _median,
        aten.searchsorted.Tensor: _searchsorted,
    }


def _convolution_backward(
    gradient: Tensor, inputs: Tensor, weight: Tensor, bias_sizes: Any, stride: list[int], padding: list[int],
    dilation: list[int], transposed: bool, output_padding: list[int], groups: int, output_mask: list[bool],
) -> tuple[Tensor, None, None]:  # fmt: skip
    """The gradient with respect to the inputs, which is a convolution too. Weights are constants here."""
    none = [0] * len(stride)
    if any(output_mask[1:]):
        raise NotImplementedError("a graph with gradients of weights")
    if transposed:
        return aten.convolution(gradient, weight, None, stride, padding, dilation, False, none, groups), None, None
    sizes = list(weight.shape[2:])
    around = [step * (size - 1) - pad for step, size, pad in zip(dilation, sizes, padding, strict=True)]
    if groups == 1 and all(step == 1 for step in stride) and min(around) >= 0:
        # As an ordinary convolution with turned weights, which engines compute faster than a transposed one.
        turned = weight.flip(list(range(2, weight.ndim))).transpose(0, 1)
        return aten.convolution(gradient, turned, None, stride, around, dilation, False, none, 1), None, None
    # Strides leave rows and columns at the end that no output has seen.
    reached = [
        (count - 1) * step + 1 + more - pad
        for count, step, more, pad in zip(gradient.shape[2:], stride, around, padding, strict=True)
    ]
    unseen = [size - end for size, end in zip(inputs.shape[2:], reached, strict=True)]
    return aten.convolution(gradient, weight, None, stride, padding, dilation, True, unseen, groups), None, None


def _average_pool_backward(
    gradient: Tensor, inputs: Tensor, size: list[int], stride: list[int], padding: list[int], ceil: bool,
    counts_padding: bool, divisor: int | None,
) -> Tensor:  # fmt: skip
    """An average is a convolution of each channel with equal weights."""
    if ceil or divisor is not None or (any(padding) and not counts_padding):
        raise NotImplementedError("the gradient of an average over fewer values at the edge")
    channels = inputs.shape[1]
    weight = gradient.new_full((channels, 1, *size), 1 / math.prod(size))
    asked = [True, False, False]
    return _convolution_backward(
        gradient, inputs, weight, None, stride or size, padding, [1] * len(size), False, [], channels, asked
    )[0]


def _max_pool_backward(gradient: Tensor, inputs: Tensor, *rest: Any) -> Tensor:
    """Each value of the gradient goes to the place that its maximum came from."""
    places = rest[-1]
    spread = torch.zeros_like(inputs).flatten(-2).scatter_add(-1, places.flatten(-2), gradient.flatten(-2))
    return spread.view_as(inputs)


def _median(values: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median: the largest of the smaller half."""
    smaller, places = values.topk((values.shape[dim] + 1) // 2, dim, largest=False, sorted=True)
    median, place = smaller.narrow(dim, -1, 1), places.narrow(dim, -1, 1)
    return (median, place) if keepdim else (median.squeeze(dim), place.squeeze(dim))


def _searchsorted(ordered: Tensor, values: Tensor, **settings: Any) -> Tensor:
    """How many numbers of one sorted list are below each value."""
    if ordered.ndim != 1 or any(settings.values()):
        raise NotImplementedError("searchsorted with several lists or other settings")
    return (ordered < values[..., None]).sum(-1)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's own warnings and log, which are about its insides."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """What stands at the root of an error of the exporter, shortened."""
    while error.__cause__ is not None:
        error = error.__cause__
    said = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {said[:200]}"
