"""from_onnx: a classifier in an ONNX file, run by onnxruntime; it has no gradient."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from alu.errors import StorageError, UsageError, check_choice
from alu.models.adapters.base import Adapter, described, imported, shortened
from alu.models.adapters.probabilities import log_of
from alu.models.normalize import NORMALISATIONS, Constants, Normalize
from alu.storage import explained

WHO = "from_onnx"
TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
EIGHT_BIT = "tensor(uint8)"
CHANNELS = (1, 3, 4)
Layout = Literal["NCHW", "NHWC"]
LOCATION = rb"\n\x08location\x12"
"""How an entry of a model that names a file begins."""
NUMBERS = r"-?[\d.]+(?:e-?\d+)?(?:,-?[\d.]+(?:e-?\d+)?)*"
CONSTANTS = re.compile(f"(?P<mean>{NUMBERS})/(?P<std>{NUMBERS})")


class OnnxClassifier(Adapter):
    """A session of onnxruntime as a module without parameters; the hash of its file stands in for weights."""

    file_: Tensor

    def __init__(
        self, session: Any, path: Path, normalize: Normalize, *, batch: int | None, layout: Layout, output: str,
        probabilities: bool, source: str, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(None, normalize, source=source, **more)
        self.__name__ = path.name
        self.path, self.batch, self.layout, self.output = path, batch, layout, output
        self.log_probabilities = probabilities
        self._session: Any = session
        wanted = session.get_inputs()[0]
        self.input, self.precision = wanted.name, wanted.type
        self.normalises = wanted.type != EIGHT_BIT
        self.register_buffer("file_", digest(path), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Logits [N, classes] on the device of the images; nothing is recorded for a gradient."""
        values = self._values(images.detach().float())
        size = self.batch or len(values)
        parts = []
        for start in range(0, len(values), size):
            part = values[start : start + size]
            # A fixed batch is filled up with copies of the last image, whose answers are dropped.
            filled = part if len(part) == size else np.concatenate([part, np.repeat(part[-1:], size - len(part), 0)])
            answer = self._running().run([self.output], {self.input: filled})[0]
            parts.append(np.asarray(answer, dtype=np.float32)[: len(part)])
        logits = torch.from_numpy(np.concatenate(parts))
        logits = logits.flatten(1) if logits[:1, :1].numel() == 1 else logits  # [N, classes, 1, 1] means [N, classes]
        return (log_of(logits) if self.log_probabilities else logits).to(images.device)

    def _values(self, images: Tensor) -> Any:
        """What the session takes for these images."""
        if self.normalises:
            ready = self.normalize(images).cpu().numpy().astype(TYPES[self.precision])
        else:
            ready = (255 * images.clamp(0, 1)).round().to(torch.uint8).cpu().numpy()
        return np.ascontiguousarray(ready.transpose(0, 2, 3, 1) if self.layout == "NHWC" else ready)

    def _running(self) -> Any:
        """The session; opened again after a copy, which cannot carry it."""
        if self._session is None:
            self._session = _opened(self.path)
        return self._session

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}

    def __copy__(self) -> Self:
        """A copy that shares the session."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def advice(self, better: Constants) -> str:
        """How its constants are given, in Python and in a name."""
        known = [name for name, constants in NORMALISATIONS.items() if constants is better]
        named = f", or the name onnx:{self.path.name}@{known[0]}" if known else ""
        return f"Give its constants: from_onnx(path, {described(better, self.channels)}){named}."


def from_onnx(
    path: str | Path, *, mean: Sequence[float] | float | None = None, std: Sequence[float] | float | None = None,
    bgr: bool = False, classes: Sequence[str] | None = None, layout: Layout | None = None, output: str | None = None,
    probabilities: bool = False,
) -> Adapter:  # fmt: skip
    """A classifier in an ONNX file as a module from [0, 1] images to logits, with `size` and `classes`.

    It runs in onnxruntime on the processor and has no gradient: the defence works around it, and of the attacks those
    that only ask (Square, HopSkipJump). Batches of a fixed size, images [N, H, W, C] and inputs of 16, 64 or 8 bits are
    served as the file wants them.

    Parameters
    ----------
    path
        The .onnx file; weights beside it are read too.
    mean, std, bgr
        The normalisation before the network, of which the file knows nothing: as in `Normalize`, or one number for all
        channels. None: it gets [0, 1] as it is.
    classes
        The names of its classes; numbers by default.
    layout
        "NCHW" or "NHWC"; seen from the file where that says it.
    output
        Which of several outputs is meant.
    probabilities
        Whether it ends in a softmax: the logarithm is then taken, which gives logits but for a constant in each row.

    Examples
    --------
    >>> alu.models.from_onnx(folder / "mean.onnx", mean=0.5, std=0.25)(images).shape
    torch.Size([4, 3])
    """
    place = Path(path)
    session = _opened(place)
    inputs = session.get_inputs()
    if len(inputs) != 1:
        names = shortened([one.name for one in inputs])
        raise UsageError(f"{WHO}: {place} takes {len(inputs)} inputs ({names}); a classifier takes one, the images.")
    wanted = inputs[0]
    if wanted.type not in (*TYPES, EIGHT_BIT):
        raise UsageError(f"{WHO}: {place} takes {wanted.type}; alu gives floating-point or 8-bit images.")
    if layout is not None:
        check_choice("layout", layout, ("NCHW", "NHWC"))
    batch, channels, size, seen = _shape(wanted.shape, layout, place)
    if wanted.type == EIGHT_BIT and (mean is not None or std is not None or bgr):
        raise UsageError(f"{WHO}: {place} takes 8-bit images, which are not normalised. Leave out mean, std and bgr.")
    normalize = _normalize(mean, std, bgr, channels)
    words = [*(["probabilities"] if probabilities else []), *([layout.lower()] if layout else [])]
    words += [f"output={output}"] if output else []
    made = OnnxClassifier(
        session, place.resolve(), normalize, batch=batch, layout=seen, output=_output(session, output, place),
        probabilities=probabilities, size=size, classes=tuple(classes or ()),
        source=source_of(place, normalize, words),
    )  # fmt: skip
    return made.tried(WHO)


def _opened(place: Path) -> Any:
    """A session on the processor, with as many threads as torch has."""
    library = imported("onnxruntime", WHO, "onnx")
    with explained(place, "read"):
        place.open("rb").close()
    options = library.SessionOptions()
    options.log_severity_level = 4  # what is wrong is raised, and said below
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        return library.InferenceSession(str(place), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a type of its own for each cause
        reason = " ".join(str(error).split())
        raise StorageError(f"{WHO}: {place} cannot be run as an ONNX model ({reason}).") from error


def _shape(
    shape: Sequence[Any], layout: Layout | None, place: Path
) -> tuple[int | None, int, tuple[int, int] | None, Layout]:
    """Batch size, channels, height and width, and layout of the input; None where any will do."""
    if len(shape) != 4:
        raise UsageError(
            f"{WHO}: {place} takes an input of shape {list(shape)}; images are [N, C, H, W] or [N, H, W, C]."
        )
    batch, second, third, last = (side if isinstance(side, int) and side > 0 else None for side in shape)
    seen: Layout = layout or ("NHWC" if second not in CHANNELS and last in CHANNELS else "NCHW")
    channels, height, width = (second, third, last) if seen == "NCHW" else (last, second, third)
    if channels is not None and channels not in CHANNELS:
        raise UsageError(
            f"{WHO}: {place} takes an input of shape {list(shape)}, which as {seen} has {channels} channels; images "
            "have 1, 3 or 4. Give layout='NCHW' or layout='NHWC'."
        )
    return batch, channels or 3, (height, width) if height and width else None, seen


def _output(session: Any, name: str | None, place: Path) -> str:
    """The output that holds the logits."""
    names = [one.name for one in session.get_outputs()]
    if name is not None:
        check_choice(f"output of {place}", name, names)
        return name
    likely = [one.name for one in session.get_outputs() if one.type in TYPES and len(one.shape) == 2]
    likely = likely if len(likely) == 1 or "logits" not in likely else ["logits"]
    if len(names) > 1 and len(likely) != 1:
        raise UsageError(
            f"{WHO}: {place} has several outputs ({shortened(names)}). Say which one: output={names[0]!r}."
        )
    return str((likely or names)[0])


def _normalize(mean: Any, std: Any, bgr: bool, channels: int) -> Normalize:
    """The layer of constants that were given; what is left out changes nothing."""
    rows = []
    for name, values, neutral in (("mean", mean, 0.0), ("std", std, 1.0)):
        given = neutral if values is None else values
        numbers = [float(value) for value in given] if isinstance(given, Sequence) else [float(given)]
        if len(numbers) not in (1, channels):
            raise UsageError(
                f"{WHO}: the images have {channels} channels, and {name} has {len(numbers)} numbers. Give one for each "
                "channel, or one for all."
            )
        rows.append(numbers if len(numbers) == channels else numbers * channels)
    return Normalize(rows[0], rows[1], bgr)


def digest(place: Path) -> Tensor:
    """SHA-256 of the file and of the weights beside it that it names, as 32 numbers."""
    whole = hashlib.sha256()
    with explained(place, "read"):
        content = place.read_bytes()
        whole.update(content)
        for name in sorted(set(_beside(content))):
            with (place.parent / name).open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
    return torch.tensor(list(whole.digest()), dtype=torch.uint8)


def _beside(content: bytes) -> Iterator[str]:
    """The files that tensors of a model are kept in: each entry is the word location, a length, and the name."""
    for entry in re.finditer(LOCATION, content):
        at, length, shift = entry.end(), 0, 0
        while at < len(content):  # a length is written seven bits at a time
            byte, at = content[at], at + 1
            length, shift = length | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        yield content[at : at + length].decode("utf-8", "replace")


def source_of(place: Path, normalize: Normalize, words: Sequence[str]) -> str:
    """The name that stands for a file with these settings."""
    mean, std = (
        ",".join(f"{value:.7g}" for value in values.flatten().tolist()) for values in (normalize.mean, normalize.std)
    )
    plain = not normalize.mean.any() and bool((normalize.std == 1).all())
    settings = [*([] if plain else [f"{mean}/{std}"]), *(["bgr"] if normalize.bgr else []), *words]
    return f"onnx:{place.resolve()}" + (f"@{'+'.join(settings)}" if settings else "")


def settings_in(text: str, name: str) -> dict[str, Any]:
    """The arguments of `from_onnx` that stand behind "@" in a name: "imagenet", "0.5/0.25+bgr+probabilities"."""
    settings: dict[str, Any] = {}
    for word in text.split("+"):
        key, equals, value = word.partition("=")
        if word in NORMALISATIONS:
            constants = NORMALISATIONS[word]
            settings |= {
                "mean": constants.mean,
                "std": constants.std,
                "bgr": constants.bgr or settings.get("bgr", False),
            }
        elif word in ("bgr", "probabilities"):
            settings[word] = True
        elif word in ("nchw", "nhwc"):
            settings["layout"] = word.upper()
        elif key == "output" and equals:
            settings["output"] = value
        elif constants_in := CONSTANTS.fullmatch(word):
            settings |= {key: [float(number) for number in constants_in[key].split(",")] for key in ("mean", "std")}
        else:
            raise UsageError(
                f"{name}: {word!r} is no setting of an ONNX classifier. Behind @ stand, joined with +, one of "
                f"{', '.join(NORMALISATIONS)} or MEAN/STD such as 0.5,0.5,0.5/0.25,0.25,0.25; bgr; probabilities; "
                "nhwc; output=NAME."
            )
    return settings
