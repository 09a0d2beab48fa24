"""from_huggingface: an image classifier of transformers, its constants read by asking its own processor."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alu.errors import StorageError, UntrustedError, UsageError
from alu.models.adapters.base import Adapter, imported, numbered
from alu.models.normalize import Constants, Normalize
from alu.storage import read_json

WHO = "from_huggingface"
PROBE = 256
"""The side of the pictures that a processor is asked about."""
CLOSE = 1e-5
"""How far what a processor does may be from what it declares."""
UNNAMED = "LABEL_"
"""How transformers calls classes that nobody named."""
HUB = "Give the path of a folder that save_pretrained wrote, or connect to the hub."


class HuggingFaceClassifier(Adapter):
    """An image classifier of transformers."""

    def advice(self, better: Constants) -> str:
        """Where its constants are."""
        return "Correct image_mean and image_std in its preprocessor_config.json, or pass its own processor."


def from_huggingface(model: Any, processor: Any = None) -> Adapter:
    """An image classifier of transformers as a module from [0, 1] images to logits, with `size` and `classes`.

    Its processor is asked what it does to plain pictures, so that any normalisation, rescaling and order of channels is
    taken over. Weights must be safetensors, and code that comes with a model is never run.

    Parameters
    ----------
    model
        A folder that `save_pretrained` wrote; the name of a model on the hub, if the hub can be reached or has it in
        its cache; or a model object, such as a `ViTForImageClassification`.
    processor
        The image processor of a model object; that of the folder by default.

    Examples
    --------
    >>> from transformers import ConvNextImageProcessor, ResNetConfig, ResNetForImageClassification
    >>> network = ResNetForImageClassification(ResNetConfig(depths=[1], hidden_sizes=[8]))
    >>> adapter = alu.models.from_huggingface(network, ConvNextImageProcessor(size={"shortest_edge": 64}))
    """
    library = imported("transformers", WHO, "huggingface")
    source = None
    if isinstance(model, str | Path):
        source, model, processor = _read(library, model, processor)
    config = getattr(model, "config", None)
    if not isinstance(model, torch.nn.Module) or config is None:
        raise UsageError(
            f"{WHO} needs a model of transformers, or its folder; it was given {type(model).__name__}. Load one with "
            "AutoModelForImageClassification.from_pretrained(folder)."
        )
    if not callable(processor):
        raise UsageError(
            f"{WHO} needs the image processor of the model, which holds its normalisation; it was given "
            f"{type(processor).__name__}. Load it with AutoImageProcessor.from_pretrained(folder)."
        )
    with quiet(library):
        normalize, size = _asked(processor, int(getattr(config, "num_channels", 3) or 3))
    weight = next(model.parameters(), None)
    normalize = normalize if weight is None else normalize.to(weight.device, weight.dtype)
    made = HuggingFaceClassifier(model, normalize, size=size or _size_in(config), classes=_names(config), source=source)
    return made.tried(WHO)


def _names(config: Any) -> tuple[str, ...]:
    """The classes of a configuration in order; numbers where nobody named them."""
    names = getattr(config, "id2label", None) or {}
    ordered = tuple(str(names[label]) for label in sorted(names))
    return numbered(len(ordered)) if all(name.startswith(UNNAMED) for name in ordered) else ordered


def _size_in(config: Any) -> tuple[int, int] | None:
    side = getattr(config, "image_size", None)
    if isinstance(side, int):
        return side, side
    return (int(side[0]), int(side[1])) if isinstance(side, tuple | list) and len(side) == 2 else None


def _asked(processor: Any, channels: int) -> tuple[Normalize, tuple[int, int] | None]:
    """What a processor does to plain pictures: the layer that does the same to [0, 1], and the size that comes out.

    One black picture, one for each channel, and a gray one that tells whether it is all a matter of constants.
    """
    colours = np.zeros((channels + 2, channels), dtype=np.uint8)
    colours[1 : channels + 1] = 255 * np.eye(channels, dtype=np.uint8)
    colours[-1] = 102
    sizing = [name for name in ("do_resize", "do_center_crop", "do_pad") if getattr(processor, name, False)]
    values = _processed(processor, colours, dict.fromkeys(sizing, False)).double()
    black, rises = values[0], values[1 : channels + 1] - values[0]  # rises: [from channel, to channel]
    bgr = channels == 3 and float(rises[0, 0].abs()) < CLOSE  # red comes out elsewhere
    slope = (rises.flip(0) if bgr else rises).diagonal()
    layer = None
    if bool((slope > 0).all()):
        layer = _layer(processor, (-black / slope).tolist(), (1 / slope).tolist(), bgr)
        pixels = torch.from_numpy(colours.astype(np.float32) / 255)[..., None, None]
    if layer is None or float((layer(pixels).flatten(1) - values).abs().max()) > 1e-3 * float(slope.max()):
        raise _unclear(processor)
    if not sizing:
        return layer, None
    height, width = _called(processor, colours, {}).shape[2:]
    return layer, (height, width)


def _called(processor: Any, colours: Any, more: dict[str, bool]) -> Tensor:
    """What comes out for plain pictures of these colours [N, C, H, W]."""
    pictures = [np.ascontiguousarray(np.broadcast_to(row[:, None, None], (len(row), PROBE, PROBE))) for row in colours]
    try:
        values = processor(images=pictures, return_tensors="pt", input_data_format="channels_first", **more)
        values = values["pixel_values"]
    except Exception as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{WHO}: {type(processor).__name__} is no image processor ({reason}).") from error
    if not isinstance(values, Tensor) or values.ndim != 4 or tuple(values.shape[:2]) != colours.shape:
        raise _unclear(processor)
    return values


def _processed(processor: Any, colours: Any, more: dict[str, bool]) -> Tensor:
    """The one colour that each plain picture becomes [N, C]."""
    values = _called(processor, colours, more).flatten(2)
    if float((values.amax(2) - values.amin(2)).max()) > CLOSE * max(1.0, float(values.abs().max())):
        raise _unclear(processor)
    return values[:, :, 0]


def _unclear(processor: Any) -> UsageError:
    return UsageError(
        f"{WHO}: {type(processor).__name__} does more to pictures than scale, cut and normalise them, so that its work "
        "cannot be taken over. Write a function that returns your classifier, and name it: module:function."
    )


def _layer(processor: Any, mean: list[float], std: list[float], bgr: bool) -> Normalize:
    """The constants that the processor declares, if it does what they say; else those it was seen to use, rounded, so
    that every machine finds the same."""
    declared = [getattr(processor, name, None) for name in ("image_mean", "image_std")]
    if all(isinstance(values, tuple | list) and len(values) == len(mean) for values in declared):
        for unit in (1, 255):  # one that does not rescale works on values from 0 to 255
            exact = [[float(value) / unit for value in values] for values in declared]  # type: ignore[union-attr]
            if np.allclose(exact, [mean, std], rtol=1e-4, atol=CLOSE / unit):
                return Normalize(exact[0], exact[1], bgr)
    rounded = [[float(f"{value:.6g}") + 0.0 for value in values] for values in (mean, std)]  # no minus before a 0
    return Normalize(rounded[0], rounded[1], bgr)


def _read(library: Any, place: str | Path, processor: Any) -> tuple[str, Any, Any]:
    """Source, model and processor of a folder or of a name on the hub; nothing of it is run."""
    folder = Path(place)
    if folder.is_dir():
        _refuse_folder(folder)
        name = str(folder.resolve())
        model, found = _loaded(library, name, processor, local=True)
    elif folder.exists() or folder.is_absolute() or str(place).startswith(".") or str(place).count("/") > 1:
        raise StorageError(f"{WHO}: {place} is not a folder. {HUB}")
    else:
        name = str(place)
        try:  # what the cache of the hub has is used as it is
            model, found = _loaded(library, name, processor, local=True)
        except StorageError:
            model, found = _loaded(library, name, processor, local=False)
    return f"hf:{name}", model, found


def _refuse_folder(folder: Path) -> None:
    """Refuse a folder without a configuration, and one whose weights are pickles only."""
    if not (folder / "config.json").is_file():
        raise StorageError(f"{WHO}: {folder} has no config.json. Give a folder that save_pretrained wrote.")
    if not any(folder.glob("*.safetensors")):
        pickles = sorted(path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pth", ".ckpt"))
        if not pickles:
            raise StorageError(f"{WHO}: {folder} holds no weights: there is no .safetensors file in it.")
        raise UntrustedError(
            f"{WHO}: the weights in {folder} are a pickle ({pickles[0]}), which can run code when it is read. Ask for "
            "safetensors, or write them yourself where you trust the file: model.save_pretrained(folder)."
        )
    for name in ("config.json", "preprocessor_config.json"):
        if (folder / name).is_file() and not isinstance(read_json(folder / name), dict):
            raise StorageError(f"{folder / name} is not a configuration of transformers.")


def _loaded(library: Any, name: str, processor: Any, *, local: bool) -> tuple[Any, Any]:
    """Model and processor by the library's own loader, told to read safetensors and to run no code."""
    safe = {"trust_remote_code": False, "local_files_only": local}
    try:
        with quiet(library):
            model, notes = library.AutoModelForImageClassification.from_pretrained(
                name, use_safetensors=True, output_loading_info=True, dtype=torch.float32, **safe
            )
            if processor is None:
                processor = library.AutoImageProcessor.from_pretrained(name, **safe)
    except Exception as error:  # the library raises nearly every type there is
        raise _explained(name, error, local) from error
    missing = sorted(notes["missing_keys"]) + sorted(str(one) for one in notes.get("mismatched_keys", ()))
    if missing:
        raise StorageError(
            f"{WHO}: {name} has no weights for {missing[0]}, which would be random numbers. Give a model that was "
            "trained to classify images."
        )
    return model, processor


def _explained(name: str, error: Exception, local: bool) -> Exception:
    """The library's error as one of ours."""
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return UntrustedError(
            f"{WHO}: {name} needs code that comes with it (trust_remote_code), which alu never runs. Build the model "
            "in a function of your own, where you trust its code, and name that function: module:function."
        )
    if Path(name).is_dir() and not (Path(name) / "preprocessor_config.json").is_file():
        return StorageError(
            f"{WHO}: {name} has no preprocessor_config.json, so that its normalisation is not known. Save the image "
            "processor into it with save_pretrained, or pass the processor."
        )
    if Path(name).is_dir():
        return StorageError(f"{WHO}: {name} cannot be read as an image classifier ({type(error).__name__}: {text}).")
    where = (
        "in the cache of the hub" if local else f"here, and the hub did not give it ({type(error).__name__}: {text})"
    )
    return StorageError(f"{WHO}: there is no folder {name}, and no model of that name {where}. {HUB}")


@contextmanager
def quiet(library: Any) -> Iterator[None]:
    """Keep the library's bars and advice off the screen inside the block."""
    words = library.utils.logging
    level, bars = words.get_verbosity(), words.is_progress_bar_enabled()
    hub = logging.getLogger("huggingface_hub")
    before = hub.level
    words.set_verbosity_error()
    words.disable_progress_bar()
    hub.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        hub.setLevel(before)
        words.set_verbosity(level)
        if bars:
            words.enable_progress_bar()
