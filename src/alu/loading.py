"""alu.load: a defence or a classifier from its name, a folder, or module:function; and purifiers from a name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from alu import data, models
from alu.decision import RuleName
from alu.defense import Defense, Reference
from alu.detectors import LogitShift
from alu.errors import UsageError, nearest
from alu.imports import call_factory
from alu.models.cards import Card
from alu.progress import Count, Watch, silent
from alu.purifiers import JPEG, PCA, AntiAdversary, Blur, Hedge, Identity, InnerVAE, LatentVAE, Median, Purifier, UNet
from alu.saving import is_defense

READINGS: dict[str, tuple[RuleName, Reference]] = {
    "input": ("alu", "input"),
    "reconstruction": ("alu", "reconstruction"),
    "purified": ("purified", "input"),
    "abstain": ("abstain", "input"),
}
"""By name, a rule and the reference that the logits after purification are compared with."""
BEHIND = {"vae": "cifar10-vae", "pca": "cifar10-pca"}
"""The purifiers of bundled defences, by their short name."""
DEMO = {
    "demo": ("vae", "input"),
    "demo-reconstruction": ("vae", "reconstruction"),
    "demo-purified": ("vae", "purified"),
    "demo-abstain": ("vae", "abstain"),
    "demo-pca": ("pca", "input"),
    "demo-pca-purified": ("pca", "purified"),
    "demo-pca-abstain": ("pca", "abstain"),
}
"""The demo's purifiers in every reading; PCA has no reconstruction to compare with."""
FILTERS: dict[str, Callable[..., Purifier]] = {
    "blur": lambda value="0.5": Blur(float(value)),
    "median": lambda value="3": Median(int(value)),
    "jpeg": lambda value="75": JPEG(int(value)),
    "none": Identity,
}
GUIDED: dict[str, Callable[..., Purifier]] = {"anti-adversary": AntiAdversary, "hedge": Hedge}
"""Purifiers that follow the gradient of the classifier they protect."""


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
        A folder that `Defense.save` or `alu fit` wrote; a bundled defence such as "cifar10-standard+vae" or "demo"; a
        bundled classifier; or "module:function", a function of yours that returns a classifier.
    classifier : callable, optional
        The classifier of a saved defence that was built around one of your own.
    trust : bool
        Whether a saved defence may import the code that it names.
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
    defense = bundled_defense_named(text, partial(watch, "Calibrating"))
    if defense is not None:
        return defense
    known = models.names("classifier")
    if ":" not in text and text not in known:
        raise UsageError(
            f"Unknown model or defence {text!r}. {nearest(text, [*defense_names(), *known])} Or give a folder that "
            "holds a saved defence, or module:function."
        )
    built = load_classifier(text)
    return built if isinstance(built, nn.Module) else CallableModule(built)


def load_classifier(name: str) -> Callable[..., Any]:
    """The classifier that "module:function" returns, or a bundled one."""
    if ":" in name:
        return call_factory(name)
    known = models.names("classifier")
    if name not in known:
        raise UsageError(
            f"There is no bundled classifier {name!r}. {nearest(name, known)} "
            "A classifier of your own is named module:function, such as my_module:build."
        )
    return models.load(name)


def bundled_defense_named(name: str, watch: Count | None = None) -> Defense | None:
    """The defence of a name such as "demo-pca" or "cifar10-at+vae-reconstruction" (a bundled CIFAR-10 classifier behind
    one of the demo's purifiers, in one of its readings); None if the name is not that of a defence."""
    if name in DEMO:
        return bundled_defense("cifar10-standard", *DEMO[name], watch=watch)
    classifier, plus, behind = name.partition("+")
    if not plus or classifier not in _classifiers():
        return None
    purifier, _, reading = behind.partition("-")
    reading = reading or "input"
    known = (purifier, reading) in DEMO.values()
    return bundled_defense(classifier, purifier, reading, watch=watch) if known else None


def defense_names() -> list[str]:
    """Every name of a bundled defence."""
    behind = [purifier if reading == "input" else f"{purifier}-{reading}" for purifier, reading in DEMO.values()]
    return [*DEMO, *(f"{classifier}+{one}" for classifier in _classifiers() for one in behind)]


def _classifiers() -> list[str]:
    """Bundled networks that classify CIFAR-10 images; not the asymmetric one, which needs its own purifier."""
    known = models.names("classifier")
    return [name for name in known if name.startswith("cifar10-") and not name.endswith("-asymmetric")]


def bundled_defense(
    classifier: str = "cifar10-standard",
    purifier: str = "vae",
    reading: str = "input",
    watch: Count | None = None,
) -> Defense:
    """A bundled classifier behind a bundled purifier, calibrated on all bundled calibration images."""
    rule, reference = READINGS[reading]
    defense = Defense(models.load(classifier), load_purifier(BEHIND[purifier]), LogitShift(), rule, reference)
    calibration = data.sample("calibration")
    defense.calibrate(calibration.images, watch=watch)
    defense.classes = calibration.classes
    return defense


def load_purifier(name: str, *, steps: int = 20, seed: int = 0, classifier: nn.Module | None = None) -> Purifier:
    """The purifier that a name stands for.

    Parameters
    ----------
    name : str
        A filter ("blur", "median", "jpeg", "none"), a bundled VAE, PCA or denoiser, a .safetensors file with a VAE,
        or a method that follows a classifier's gradient ("anti-adversary", "hedge"). "@" and a number set the main
        setting: "blur@1" pixels, "jpeg@50" quality, "cifar10-vae@5" steps, "cifar10-pca@100" directions.
    steps, seed : int
        Latent steps of a VAE, and the seed of its random starts.
    classifier : nn.Module, optional
        The one whose gradient "anti-adversary" and "hedge" follow.

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
        return GUIDED[base](classifier)
    count = int(value or steps)
    if base.endswith(".safetensors"):
        return LatentVAE(models.load_file(base), steps=count, seed=seed)
    makers: dict[str, Callable[[], Purifier]] = {
        "vae": lambda: LatentVAE(base, steps=count, seed=seed),
        "asymmetric": lambda: InnerVAE(base, steps=count, seed=seed),
        "pca": lambda: PCA.bundled(base).first(int(value)) if value else PCA.bundled(base),
        "denoiser": lambda: UNet(base),
    }
    task = _task(base)
    if task not in makers:
        raise UsageError(f"There is no purifier {name!r}. {nearest(base, purifier_names())}")
    return makers[task]()


def purifier_names() -> list[str]:
    """The names of all purifiers that need no classifier."""
    return [*FILTERS, *(name for task in ("vae", "pca", "denoiser") for name in models.names(task))]


def _task(name: str) -> str:
    """The kind of purifier that a bundled network is used in; "" if there is no such network."""
    if name not in models.names():
        return ""
    card: Card = models.card(name)
    return "asymmetric" if card.architecture["name"] == "asymmetric" else card.task
