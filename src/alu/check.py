"""What comes in is checked (images, labels, logits, devices), and models are asked: for logits, in eval mode.

Each failure is one sentence that says what to do.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

from alu.errors import AluError, InputError, UsageError
from alu.pixels import refuse_odd_images


class AluWarning(UserWarning):
    """Something is probably not what the user meant, but the work goes on."""


def check_images(images: Tensor, who: str) -> None:
    """Refuse anything but floating-point images [N, C, H, W] in [0, 1]."""
    if not isinstance(images, Tensor):
        raise InputError(f"{who} needs a tensor of images; it was given {type(images).__name__}.")

    def extremes() -> tuple[float, float]:
        if has_no_values(images):
            return 0.0, 1.0
        low, high = torch.aminmax(images.detach())
        return float(low), float(high)

    refuse_odd_images(who, images.shape, images.is_floating_point(), images.dtype, extremes)


def has_no_values(tensor: Tensor) -> bool:
    """Whether a tensor is one of those that a graph is traced with (`alu.export`): a shape, and nothing to look at."""
    return isinstance(tensor, FakeTensor)


def check_labels(labels: Tensor, count: int, classes: int | None, who: str) -> None:
    """Refuse labels that do not fit the images or the classes."""
    if not isinstance(labels, Tensor):
        raise InputError(f"{who} needs a tensor of labels; it was given {type(labels).__name__}.")
    if labels.shape != (count,) or labels.is_floating_point():
        raise InputError(
            f"{who} needs one whole-number label per image, shape [{count}]; "
            f"it was given {labels.dtype} of shape {list(labels.shape)}."
        )
    if labels.dtype != torch.int64:
        raise InputError(f"{who} needs labels of type torch.int64; these are {labels.dtype}. Pass labels.long().")
    if count and (int(labels.min()) < 0 or (classes is not None and int(labels.max()) >= classes)):
        upper = "" if classes is None else f" to {classes - 1}"
        raise InputError(
            f"{who}: labels must run from 0{upper}; these run from {int(labels.min())} to {int(labels.max())}."
        )


def answers(model: Callable[[Tensor], object], images: Tensor) -> object:
    """A model's logits, taken out of an object with `.logits` or a dict with "logits".

    A model that leaves torch (NumPy, ONNX, an endpoint) is asked without a gradient.
    """
    try:
        output = model(images)
    except RuntimeError as error:
        if images.requires_grad and "requires grad" in str(error):
            output = model(images.detach())
        elif (other := _other_precision(model, images.dtype)) is not None:
            raise InputError(
                f"The classifier {type(model).__name__} computes in {other}, but the images are {images.dtype}. "
                "Convert one of them: classifier.float() for torch.float32, or images.to(...)."
            ) from error
        else:
            raise
    return logits_in(output)


def logits_in(output: object) -> object:
    """The logits inside a model's output: an object with `.logits`, a dict with "logits", or the output itself."""
    if isinstance(output, Mapping):
        return output.get("logits", output)
    return getattr(output, "logits", output)


def _other_precision(model: object, dtype: torch.dtype) -> torch.dtype | None:
    """The floating-point type of a module's weights, where it is not that of the images."""
    weights = model.parameters() if isinstance(model, nn.Module) else iter(())
    kinds = {weight.dtype for weight in weights if weight.is_floating_point()}
    return next(iter(kinds)) if kinds and dtype not in kinds else None


def check_logits(logits: object, count: int, who: str) -> Tensor:
    """The classifier's answer as a tensor [N, classes]; anything else is refused."""
    if isinstance(logits, tuple | list) and any(isinstance(part, Tensor) for part in logits):
        raise InputError(
            f"{who} must return logits [N, classes]; it returned a {type(logits).__name__} of {len(logits)}. If the "
            "logits are its first part, wrap it: lambda images: classifier(images)[0]."
        )
    if not isinstance(logits, Tensor):
        try:
            logits = torch.as_tensor(logits)
        except Exception as error:
            raise InputError(f"{who} must return logits as a tensor; it returned {type(logits).__name__}.") from error
    if logits.ndim != 2 or logits.shape[0] != count or logits.shape[1] < 2:
        raise InputError(
            f"{who} must return logits [N, classes] with at least 2 classes for N={count} images; "
            f"it returned shape {list(logits.shape)}."
        )
    if not has_no_values(logits) and not bool(torch.isfinite(logits.detach()).all()):
        raise InputError(f"{who} returned NaN or infinite logits. Check its weights and its normalisation.")
    return logits


def check_classifier(
    classifier: Callable[[Tensor], object], few: Tensor, name: str, classes: Sequence[str] | None, who: str
) -> Tensor:
    """The logits of a few images of the data set `name`; a classifier that fails on them, or has other classes, is
    refused with a sentence. Without `classes` their number is not checked."""
    try:
        with torch.no_grad():
            answer = answers(classifier, few)
    except AluError:
        raise
    except Exception as error:
        shape = ", ".join(map(str, ["N", *few.shape[1:]]))
        raise InputError(
            f"{who} must take images [{shape}] in [0, 1], the shape of those in {name}, but failed on them: "
            f"{type(error).__name__}: {error}"
        ) from error
    logits = check_logits(answer, len(few), who)
    if classes is not None and logits.shape[1] != len(classes):
        names = ", ".join(classes[:5]) + (", ..." if len(classes) > 5 else "")
        raise InputError(
            f"{who} answers with {logits.shape[1]} classes, but {name} has {len(classes)}: {names}. "
            "Their number and order must agree."
        )
    return logits


@contextmanager
def evaluating(*modules: object) -> Iterator[None]:
    """Put every module given into eval mode for the length of the block; anything that is no module is passed over."""
    changed = [
        part for module in modules if isinstance(module, nn.Module) for part in module.modules() if part.training
    ]
    for part in changed:
        part.training = False
    try:
        yield
    finally:
        for part in changed:
            part.training = True


def find_device(name: str) -> torch.device:
    """The device of this name, if it is there and computes."""
    try:
        device = torch.device(name)
        # Read back: the device "meta" can be made, but holds no numbers.
        torch.zeros(1, device=device).item()
    except Exception as error:  # each kind of device is missing in its own way
        raise UsageError(f"There is no device {name!r} on this machine. Use the device cpu.") from error
    return device


def look_like_probabilities(logits: Tensor) -> bool:
    """Whether every row is non-negative and sums to 1, as a softmax's output does and logits practically never do."""
    rows = logits.detach()
    return not has_no_values(rows) and bool((rows >= 0).all()) and bool(((rows.sum(1) - 1).abs() < 1e-3).all())


def warn(message: str) -> None:
    """Warn the caller's caller, once per place."""
    warnings.warn(message, AluWarning, stacklevel=3)


@contextmanager
def full_precision(images: Tensor) -> Iterator[None]:
    """Compute outside autocast: thresholds come from full-precision logits, and half precision would move them."""
    with torch.autocast(images.device.type, enabled=False):
        yield
