"""from_timm and from_torchvision: networks whose constants come with their pretrained configuration or weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from alu.errors import StorageError, UntrustedError, UsageError
from alu.models.adapters.base import Adapter, constants_of, imported
from alu.models.normalize import Constants

TIMM, TORCHVISION = "from_timm", "from_torchvision"


class TimmClassifier(Adapter):
    """An image classifier of timm."""

    def advice(self, better: Constants) -> str:
        """Where its constants are."""
        return "Correct mean and std in its pretrained_cfg."


class TorchvisionClassifier(Adapter):
    """An image classifier of torchvision."""

    def advice(self, better: Constants) -> str:
        """Where its constants are."""
        return "Pass the weights that this model was loaded with."


def from_timm(model: Any) -> Adapter:
    """An image classifier of timm as a module from [0, 1] images to logits, with `size` and `classes`.

    Parameters
    ----------
    model
        A model that `timm.create_model` made, whose `pretrained_cfg` has mean, std and input_size. Or a folder with
        config.json and model.safetensors, as timm's `save_for_hf` writes it; or the name of a pretrained model, which
        timm takes from its cache or fetches.

    Examples
    --------
    >>> network = alu.models.resnet20()  # stands for timm.create_model("resnet10t", pretrained=True)
    >>> network.pretrained_cfg = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "input_size": (3, 32, 32), "num_classes": 10}
    >>> adapter = alu.models.from_timm(network)
    """
    source = None
    if isinstance(model, str | Path):
        source, model = _created(model)
    facts = getattr(model, "pretrained_cfg", None)
    if not isinstance(model, nn.Module) or not facts:
        raise UsageError(
            f"{TIMM} needs a model of timm with its pretrained_cfg, or its name; it was given {type(model).__name__}. "
            "Make one with timm.create_model(name, pretrained=True)."
        )
    known = facts if isinstance(facts, dict) else vars(facts)
    if not known.get("mean") or not known.get("std"):
        raise UsageError(f"{TIMM}: the pretrained_cfg of {type(model).__name__} has no mean and std. Set them in it.")
    shape = known.get("input_size") or (3, 224, 224)
    weight = next(model.parameters(), None)
    normalize = constants_of(known["mean"], known["std"], TIMM, int(shape[0]))
    normalize = normalize if weight is None else normalize.to(weight.device, weight.dtype)
    names = known.get("label_names") or ()
    # A head that was replaced has other classes than the configuration it came with.
    names = names if len(names) == getattr(model, "num_classes", len(names)) else ()
    made = TimmClassifier(model, normalize, size=(int(shape[1]), int(shape[2])), classes=names, source=source)
    return made.tried(TIMM)


def _created(place: str | Path) -> tuple[str, Any]:
    """Source and model of a folder or a name."""
    folder = Path(place)
    library = imported("timm", TIMM, "timm")
    if folder.is_dir():
        for name in ("config.json", "model.safetensors"):
            if not (folder / name).is_file():
                raise StorageError(f"{TIMM}: {folder} has no {name}. timm.models.save_for_hf writes such a folder.")
        name, created = str(folder.resolve()), f"local-dir:{folder.resolve()}"
    elif folder.exists() or folder.is_absolute() or str(place).startswith("."):
        raise StorageError(f"{TIMM}: {place} is not a folder. Give one, or the name of a pretrained model.")
    else:
        name = created = str(place)
        _refuse_unknown(library, name)
    try:
        model = library.create_model(created, pretrained=True)
    except Exception as error:  # of the hub, of the disk, of the network's own constructor
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise StorageError(
            f"{TIMM}: timm could not load {name} ({reason}). Give a folder with config.json and model.safetensors, or "
            "connect to the hub."
        ) from error
    return f"timm:{name}", model


def _refuse_unknown(library: Any, name: str) -> None:
    """Refuse a name that timm does not know, and weights that only come as a pickle."""
    if not library.is_model_pretrained(name):
        close = library.list_models(f"*{name.partition('.')[0][:6]}*", pretrained=True)[:3]
        offered = f" Did you mean {' or '.join(close)}?" if close else ""
        raise UsageError(f"{TIMM}: timm has no pretrained model {name!r}.{offered}")
    if not getattr(library.get_pretrained_cfg(name), "hf_hub_id", None):
        raise UntrustedError(
            f"{TIMM}: the weights of {name} are only there as a pickle, which can run code when it is read. Choose a "
            "model whose weights are safetensors."
        )


def from_torchvision(model: Any, weights: Any) -> Adapter:
    """An image classifier of torchvision as a module from [0, 1] images to logits, with `size` and `classes`.

    Parameters
    ----------
    model
        A model that torchvision made with these weights: `resnet18(weights=ResNet18_Weights.DEFAULT)`.
    weights
        The entry of torchvision's list of weights. Its transforms hold the constants, its meta the class names.

    Examples
    --------
    >>> from types import SimpleNamespace as Stand  # stands for torchvision.models.ResNet18_Weights.DEFAULT
    >>> made = lambda: Stand(mean=[0.5] * 3, std=[0.5] * 3, crop_size=[32])
    >>> adapter = alu.models.from_torchvision(classifier, Stand(transforms=made, meta={"categories": "0123456789"}))
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"{TORCHVISION} needs a model of torchvision; it was given {type(model).__name__}.")
    meta, transforms = getattr(weights, "meta", None), getattr(weights, "transforms", None)
    if not isinstance(meta, dict) or not callable(transforms):
        raise UsageError(
            f"{TORCHVISION} needs the weights that the model was made with, such as ResNet18_Weights.DEFAULT; it was "
            f"given {type(weights).__name__}."
        )
    preset = transforms()
    side: Any = getattr(preset, "crop_size", None)
    if not hasattr(preset, "mean") or not hasattr(preset, "std") or side is None or "categories" not in meta:
        raise UsageError(f"{TORCHVISION}: {weights} are not the weights of an image classifier. Pass those of one.")
    sides = tuple(map(int, side)) if isinstance(side, Sequence) else (int(side),)
    normalize = constants_of(preset.mean, preset.std, TORCHVISION)
    weight = next(model.parameters(), None)
    normalize = normalize if weight is None else normalize.to(weight.device, weight.dtype)
    made = TorchvisionClassifier(
        model, normalize, size=(sides[0], sides[-1]), classes=tuple(meta["categories"]), source=None
    )
    return made.tried(TORCHVISION)
