"""alu.load: a defence or a classifier from its name, a folder, or module:function; and purifiers from a name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alu import data, models
from alu.decision import RuleName
from alu.defense import Defense, Reference
from alu.detectors import LogitShift, Neighbourhood
from alu.errors import UsageError, nearest
from alu.models import adapters
from alu.models.deep_vae import CONVERGING
from alu.parts import call_factory
from alu.progress import Count, Watch, silent
from alu.purifiers import (
    ADP,
    JPEG,
    PCA,
    SOAP,
    AntiAdversary,
    Blur,
    DiffPure,
    Hedge,
    Identity,
    InnerVAE,
    LatentVAE,
    LongRun,
    Median,
    Purifier,
    ReverseAttack,
    UNet,
)
from alu.saving import is_defense

READINGS: dict[str, tuple[RuleName, Reference]] = {
    "input": ("alu", "input"),
    "reconstruction": ("alu", "reconstruction"),
    "purified": ("purified", "input"),
    "abstain": ("abstain", "input"),
    "graded": ("graded", "input"),
}
"""By name, a rule and the reference that the logits after purification are compared with."""
CHECK = "check"
"""The reading of a defence that has no purifier and answers only where a search finds no other answer nearby."""
DEMO = {
    "demo": ("vae", "input"),
    "demo-reconstruction": ("vae", "reconstruction"),
    "demo-purified": ("vae", "purified"),
    "demo-abstain": ("vae", "abstain"),
    "demo-graded": ("vae", "graded"),
    "demo-pca": ("pca", "input"),
    "demo-pca-purified": ("pca", "purified"),
    "demo-pca-abstain": ("pca", "abstain"),
    "demo-pca-graded": ("pca", "graded"),
}
"""The demo's purifiers in every reading; PCA has no reconstruction to compare with."""
FILTERS: dict[str, Callable[..., Purifier]] = {
    "blur": lambda value="0.5": Blur(float(value)),
    "median": lambda value="3": Median(int(value)),
    "jpeg": lambda value="75": JPEG(int(value)),
    "none": Identity,
}
GUIDED: dict[str, Callable[..., Purifier]] = {"anti-adversary": AntiAdversary, "hedge": Hedge, "soap": SOAP}
"""Purifiers that follow the gradient of the classifier they protect."""
LEARNED: dict[str, tuple[Callable[..., Purifier], str]] = {
    "adp": (ADP, "cifar10-score"),
    "diffpure": (DiffPure, "cifar10-score"),
    "long-run": (LongRun, "cifar10-energy"),
    "reverse": (ReverseAttack, "cifar10-contrastive"),
}
"""Methods of others that need a network of their own: the purifier, and the bundled network unless another is named."""
LATENT: dict[str, Callable[..., Purifier]] = {
    "vae": LatentVAE,
    "deep_vae": partial(LatentVAE, **CONVERGING),
    "asymmetric": InnerVAE,
    "amortised": partial(LatentVAE, solver="learned"),
}
"""Purifiers that optimise a latent code, by the architecture of their network."""


class CallableModule(nn.Module):
    """A plain callable as a module, so that it can be moved, counted and evaluated like one."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: Any) -> Any:
        """What the function returns."""
        return self.function(images)


def load(
    name: str | Path, *, classifier: Any = None, trust: bool = False, watch: Watch = silent
) -> nn.Module | Defense:
    """A ready defence or classifier.

    Parameters
    ----------
    name : str or Path
        A folder that `Defense.save` or `alu fit` wrote; a bundled defence such as "cifar10-standard+vae" or "demo"
        ("demo@5" makes 5 latent steps and not 20); a bundled classifier; one of another library, "hf:FOLDER",
        "timm:NAME" or "onnx:FILE"; or "module:function", a function of yours that returns a classifier or a `Defense`.
    classifier : callable, optional
        The classifier of a saved defence that was built around one of your own.
    trust : bool
        Whether the code that a saved defence names (classifier, purifier, detector) may be imported, which runs it.
    watch : callable
        Called with (current work, images done, images in all); a bundled defence is calibrated when it is loaded.

    Examples
    --------
    >>> defense.save(folder / "my-defense")
    >>> alu.load(folder / "my-defense").rule
    'alu'
    """
    path = Path(name)
    if path.is_dir() or is_defense(path):
        return Defense.load(path, classifier, trust=trust)
    text = str(name)
    defenses = bundled_defenses()
    if text.partition("@")[0] in defenses:
        return load_bundled_defense(text, partial(watch, "Calibrating"))
    known = models.names("classifier")
    if ":" not in text and text not in known:
        raise UsageError(
            f"Unknown model or defence {text!r}. {nearest(text, [*defenses, *known])} Or give a folder that "
            "holds a saved defence, hf:FOLDER, onnx:FILE, or module:function."
        )
    built = load_classifier(text)
    return built if isinstance(built, nn.Module) else CallableModule(built)


def load_classifier(name: str) -> Callable[..., Any]:
    """The classifier that a name stands for: one of another library ("hf:FOLDER", "timm:NAME", "onnx:FILE"), what
    "module:function" returns, or a bundled one."""
    if adapters.is_named(name):
        return adapters.named(name)
    if ":" in name:
        return call_factory(name)
    known = models.names("classifier")
    if name not in known:
        raise UsageError(
            f"There is no bundled classifier {name!r}. {nearest(name, known)} "
            "A classifier of your own is named module:function, such as my_module:build, hf:FOLDER or onnx:FILE."
        )
    return models.load(name)


def bundled_defenses() -> dict[str, tuple[str, str, str]]:
    """Classifier, purifier and reading of every bundled defence, by its name: "demo-pca", or a classifier behind one of
    the demo's purifiers, "cifar10-at+vae-reconstruction"."""
    defenses = {name: ("cifar10-standard", purifier, reading) for name, (purifier, reading) in DEMO.items()}
    for classifier in models.names("classifier"):
        # The asymmetric network needs a purifier of its own.
        if not classifier.startswith("cifar10-") or classifier.endswith("-asymmetric"):
            continue
        for purifier, reading in DEMO.values():
            behind = purifier if reading == "input" else f"{purifier}-{reading}"
            defenses[f"{classifier}+{behind}"] = (classifier, purifier, reading)
        defenses[f"{classifier}+{CHECK}"] = (classifier, "none", CHECK)
    return defenses


def load_bundled_defense(name: str, watch: Count | None = None) -> Defense:
    """The bundled defence of this name, calibrated on all bundled calibration images; "@" and a number set its
    purifier, as in `load_purifier`: "demo@5" makes 5 latent steps."""
    base, at, setting = name.partition("@")
    classifier, purifier, reading = bundled_defenses()[base]
    if at and (reading == CHECK or not setting.isdecimal()):
        raise UsageError(
            f"{name!r} is not a defence: after @ stands a whole number, the steps or directions of its purifier, as in "
            "demo@5; a defence that checks has none."
        )
    calibration = data.sample("calibration")
    if reading == CHECK:  # it needs no calibration
        defense = Defense(models.load(classifier), detector=Neighbourhood(), rule="abstain")
        defense.classes, defense.shape_ = models.card(classifier).classes, torch.tensor(calibration.shape)
        return defense
    rule, reference = READINGS[reading]
    ready = load_purifier(f"cifar10-{purifier}{at}{setting}")
    defense = Defense(models.load(classifier), ready, LogitShift(), rule, reference)
    defense.calibrate(calibration.images, watch=watch)
    defense.classes = calibration.classes
    return defense


def load_purifier(name: str, *, steps: int = 20, seed: int = 0, classifier: nn.Module | None = None) -> Purifier:
    """The purifier that a name stands for.

    Parameters
    ----------
    name : str
        A filter ("blur", "median", "jpeg", "none"), a bundled VAE, PCA or denoiser, a .safetensors file with a VAE; a
        method that follows a classifier's gradient ("anti-adversary", "hedge", "soap"); or one with a network of its
        own ("adp", "diffpure", "long-run", "reverse"), bundled or in a file: "adp:FILE.safetensors". "@" and a number
        set the main setting: "blur@1" pixels, "jpeg@50" quality, "cifar10-vae@5" steps, "cifar10-pca@100" directions,
        "diffpure@20" steps.
    steps, seed : int
        Latent steps of a VAE, unless they are learned, and the seed of a purifier that is random.
    classifier : nn.Module, optional
        The one whose gradient "anti-adversary", "hedge" and "soap" follow.

    Examples
    --------
    >>> from alu.loading import load_purifier
    >>> load_purifier("blur@1").sigma
    1.0
    """
    base, _, value = name.partition("@")
    if base in FILTERS:
        return FILTERS[base](value) if value else FILTERS[base]()
    if base in GUIDED:
        if classifier is None:
            raise UsageError(f"The purifier {base} follows a classifier's gradient. Pass the classifier.")
        return GUIDED[base](classifier, **_steps(name, value))
    method, _, network = base.partition(":")
    if method in LEARNED:
        make, usual = LEARNED[method]
        return make(_network(network or usual, method), seed=seed, **_steps(name, value))
    count = _steps(name, value)
    if base.endswith(".safetensors"):
        opened = models.load_file(base)
        kind = str(opened.architecture["name"])  # type: ignore[index]
        return _latent(opened, kind if kind in LATENT else "vae", steps, seed, count)
    kind = models.card(base).architecture["name"] if base in models.names() else ""
    if kind in LATENT:
        return _latent(base, kind, steps, seed, count)
    return _bundled_purifier(base, kind, count.get("steps"))


def _latent(network: nn.Module | str, kind: str, steps: int, seed: int, count: dict[str, int]) -> Purifier:
    """The purifier of a VAE of this kind. Where steps are learned, all of them are made unless the name says fewer."""
    usual = {} if kind == "amortised" else {"steps": steps}
    return LATENT[kind](network, seed=seed, **{**usual, **count})


def _bundled_purifier(name: str, kind: str, components: int | None) -> Purifier:
    """The purifier whose network is the bundled one of this name and kind."""
    if kind == "projection":
        return PCA.bundled(name) if components is None else PCA.bundled(name).first(components)
    if kind == "unet":
        return UNet(name)
    raise UsageError(f"There is no purifier {name!r}. {nearest(name, purifier_names())}")


def _steps(name: str, value: str) -> dict[str, int]:
    """The steps that a name sets after "@", as an argument; none where it sets none."""
    if value and not value.isdigit():
        usual = name.partition("@")[0]
        raise UsageError(f"The purifier {name!r} has no number after @. Write a whole number, such as {usual}@5.")
    return {"steps": int(value)} if value else {}


def _network(name: str, method: str) -> nn.Module:
    """The network of a method: bundled, or in a file."""
    if name.endswith(".safetensors"):
        return models.load_file(name)
    if name not in models.names():
        raise UsageError(
            f"The purifier {method} needs the bundled network {name}, which has not been trained yet: alu train "
            f"{name}, then name its file: {method}:runs/{name}/model.safetensors."
        )
    return models.load(name)


def purifier_names() -> list[str]:
    """Every name that `load_purifier` knows, without "@" and files."""
    bundled = [name for task in ("vae", "pca", "denoiser") for name in models.names(task)]
    return [*FILTERS, *GUIDED, *LEARNED, *bundled]
