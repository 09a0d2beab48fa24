"""Adapter: somebody's network as alu uses one, from images in [0, 1] to logits, with its normalisation inside."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from alu.check import check_logits, evaluating, logits_in
from alu.errors import AluError, MissingExtraError, UsageError
from alu.models.normalize import Constants, Normalize

GRAY = 0.5
"""The value of every pixel of the image that a new adapter is tried on."""


class Adapter(nn.Module):
    """A classifier from another library: images [N, C, H, W] in [0, 1] in, logits [N, classes] out.

    The normalisation is inside; scaling and cutting pictures to `size` stay outside, because attack budgets are
    measured on the pixels that go in.

    Parameters
    ----------
    network
        What the library made; it gets normalised images.
    normalize
        The layer before it.
    size
        Height and width of the images that it was made for; None if that is not known.
    classes
        The names of its classes; numbers where it has no names, empty if even their number is not known.
    source
        The name under which it can be loaded again, such as "hf:/models/vit"; None for an object of the user's own.

    Examples
    --------
    >>> adapter = alu.models.Adapter(alu.models.resnet20(), alu.models.Normalize([0.5] * 3, [0.5] * 3), size=(32, 32))
    >>> adapter(images).shape
    torch.Size([4, 10])
    """

    log_probabilities = False
    """Whether it answers with logarithms of probabilities, which are logits but for a constant in each row."""
    normalises = True
    """Whether other constants than its own could be tried on it."""

    def __init__(
        self, network: Any, normalize: Normalize, *, size: tuple[int, int] | None = None, classes: Sequence[str] = (),
        source: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.network, self.normalize = network, normalize
        self.size, self.classes, self.source = size, tuple(map(str, classes)), source
        self.__name__ = type(network).__name__  # what an evaluation calls it
        self.eval()

    @property
    def channels(self) -> int:
        """How many channels its images have."""
        return int(self.normalize.mean.shape[1])

    def forward(self, images: Tensor) -> Any:
        """The logits [N, classes]."""
        return logits_in(self.network(self.normalize(images)))

    def advice(self, better: Constants) -> str:
        """Where to change the constants, a sentence, if `better` ones were found."""
        return f"Build it with {described(better, self.channels)}."

    def tried(self, who: str) -> Adapter:
        """Itself, after one gray image: a network that cannot answer it, or with other classes, is refused."""
        height, width = self.size or (224, 224)
        image = torch.full((1, self.channels, height, width), GRAY).to(self.normalize.mean)
        try:
            with torch.no_grad(), evaluating(self):
                answer = self(image)
        except AluError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UsageError(
                f"{who}: {self.__name__} failed on an image [1, {self.channels}, {height}, {width}] "
                f"({reason}). It must be an image classifier."
            ) from error
        logits = check_logits(answer, 1, f"{who}: {self.__name__}")
        if self.classes and logits.shape[1] != len(self.classes):
            raise UsageError(
                f"{who}: {self.__name__} answers with {logits.shape[1]} classes, but "
                f"{len(self.classes)} are named: {shortened(self.classes)}. Name as many as it answers with."
            )
        self.classes = self.classes or numbered(logits.shape[1])
        return self


def numbered(count: int) -> tuple[str, ...]:
    """Numbers as the names of so many classes."""
    return tuple(map(str, range(count)))


def shortened(names: Sequence[str]) -> str:
    """The first names, for a sentence."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def described(constants: Constants, channels: int) -> str:
    """Constants as arguments."""
    layer = constants.layer(channels)
    mean, std = ([round(value, 6) for value in values.flatten().tolist()] for values in (layer.mean, layer.std))
    return f"mean={mean}, std={std}{', bgr=True' if layer.bgr else ''}"


def imported(package: str, who: str, extra: str) -> ModuleType:
    """A library, imported now; one that is missing or does not start here is one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # users can do nothing about the deprecations that a library uses
            return import_module(package)
    except ModuleNotFoundError as error:
        missing = (error.name or package).partition(".")[0]
        raise MissingExtraError(who, missing, extra) from error
    except Exception as error:  # a build for another torch fails in its own way
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{who} needs the package {package}, which is installed but does not start ({type(error).__name__}: "
            f"{reason}). Install a build of it that fits this torch."
        ) from error


def constants_of(mean: Any, std: Any, who: str, channels: int = 3) -> Normalize:
    """The layer of a library's constants, whatever sequence they come in; a single number holds for each channel."""
    rows = []
    for values in (mean, std):
        try:
            numbers = [float(value) for value in (values if isinstance(values, Sequence) else [values])]
        except (TypeError, ValueError) as error:
            raise UsageError(
                f"{who} needs mean and std as numbers, one for each channel; {values!r} is none."
            ) from error
        rows.append(numbers * channels if len(numbers) == 1 else numbers)
    return Normalize(rows[0], rows[1])
