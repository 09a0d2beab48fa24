"""alu.fit: a defence around somebody's classifier: train or take a purifier, calibrate, measure on held-out images."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from alu.assembly import check_suspicious
from alu.check import check_classifier, check_images, check_labels, evaluating, find_device, warn
from alu.choosing import CANDIDATES, WIDTHS, choose
from alu.data import open_dataset
from alu.data.dataset import Dataset
from alu.data.splits import own_part
from alu.decision import RULES, RuleName
from alu.defense import REFERENCES, Defense, Reference
from alu.detectors import Detector, Disagreement, LogitPeak, LogitShift
from alu.errors import DataError, InputError, StorageError, UsageError, check_choice
from alu.fitted import Fitted, measure
from alu.loading import FILTERS, GUIDED, LEARNED, load_purifier, purifier_names
from alu.models import Adapter, check_normalisation
from alu.progress import Watch, at_once, silent
from alu.purifiers import PCA, LatentVAE, Purifier
from alu.stats import fewest_clean
from alu.training.recipes.learned import train_with_learned
from alu.training.recipes.own import train_vae
from alu.workers import Pool, pool_of

DetectorName = Literal["peak", "shift", "disagreement"]
FittedSolver = Literal["adam", "learned"]
Auto = Literal["auto"]
"""In place of a rule: the best one for these pictures is chosen."""
FEWEST = 100
"""With fewer validation pictures than these, the rule is chosen on the calibration pictures."""
MOST_FITTED = 10_000
"""Pictures that a PCA is fitted on, where they are not large."""
FITTED = ("vae", "pca")
"""The purifiers that are made from the user's own images; all others are loaded by name."""
DETECTORS: dict[DetectorName, type[Detector]] = {"peak": LogitPeak, "shift": LogitShift, "disagreement": Disagreement}
Images = Tensor | Dataset | str | Path | Mapping[str, Dataset]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to fit, with the settings of `alu.fit`. `replaces`: overwrite a finished training with other settings at
    `checkpoint`."""

    purifier: str | Purifier = "vae"
    steps: int = 20
    solver: FittedSolver = "adam"
    detector: DetectorName = "peak"
    rule: RuleName | Auto = "auto"
    reference: Reference = "input"
    false_alarm: float = 0.005
    suspicious: float | None = None
    epochs: int | None = None
    max_minutes: float = 120.0
    checkpoint: Path | str | None = None
    replaces: bool = False
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        # Everything that can be refused is refused here, before an hour of training and not after it.
        name = self.purifier if isinstance(self.purifier, str) else ""
        base, _, file = name.partition("@")[0].partition(":")
        file = file if base in LEARNED else name
        if file.endswith(".safetensors"):
            if not Path(file).is_file():
                raise StorageError(f"The network {file} does not exist. Give the path of a .safetensors file.")
        elif name:
            check_choice("purifier", base, [*FITTED, *purifier_names()])
        find_device(self.device)
        check_choice("rule", self.rule, ["auto", *RULES])
        check_choice("reference", self.reference, REFERENCES)
        if self.reference == "reconstruction" and base in ("pca", *FILTERS, *GUIDED, *LEARNED):
            raise UsageError(f'reference="reconstruction" needs a VAE; {name} has no reconstruction to compare with.')
        check_choice("detector", self.detector, DETECTORS)
        check_choice("solver", self.solver, get_args(FittedSolver))
        if self.solver != "adam" and name != "vae":
            raise UsageError(
                f'solver="{self.solver}" is for a VAE that is trained; {name or "this purifier"} trains none. A '
                "bundled VAE with learned steps is named like cifar10-vae-learned."
            )
        DETECTORS[self.detector](self.false_alarm)
        if self.suspicious is not None:
            check_suspicious(self.suspicious)
        if self.steps < 0 or (self.epochs is not None and self.epochs < 1) or not self.max_minutes > 0:
            raise UsageError(
                f"A fit needs steps= of at least 0, epochs= of at least 1 and max_minutes= above 0; it was given "
                f"{self.steps}, {'the default' if self.epochs is None else self.epochs} and {self.max_minutes:g}."
            )
        if name != "vae" and (self.epochs is not None or self.checkpoint is not None):
            warn(f"epochs= and checkpoint= are for a VAE that is trained; {name or 'this purifier'} trains none.")

    @property
    def parts(self) -> tuple[str, ...]:
        """The splits of the data that this fit needs."""
        trained = ("train",) if self.purifier in FITTED else ()
        validated = ("validation",) if self.purifier == "vae" or self.chooses else ()
        return (*trained, *validated, "calibration", "test")

    @property
    def chooses(self) -> bool:
        """Whether the rule, or the width of one that has one, is left to the fit."""
        return self.rule == "auto" or (RULES[self.rule].uses_state and self.suspicious is None)


def fit(
    classifier: Callable[[Tensor], Any],
    images: Tensor | Dataset | str | Path,
    labels: Tensor | None = None,
    *,
    classes: Sequence[str] | None = None,
    purifier: str = "vae",
    steps: int = 20,
    solver: FittedSolver = "adam",
    detector: DetectorName = "peak",
    rule: RuleName | Auto = "auto",
    reference: Reference = "input",
    false_alarm: float = 0.005,
    suspicious: float | None = None,
    epochs: int | None = None,
    max_minutes: float = 120.0,
    checkpoint: Path | str | None = None,
    force: bool = False,
    seed: int = 0,
    device: str | None = None,
    workers: int | Pool | None = None,
    watch: Watch = silent,
) -> Defense:
    """A calibrated defence around a trained classifier, measured on held-out images; what `alu fit` does, in Python.

    70 % of the images train the purifier, 15 % calibrate, 5 % choose weights and rule, 10 % measure the result. A
    defence that loses more than 10 points of clean accuracy is refused with `HarmfulDefenseError`; other weaknesses are
    warnings. `alu.fitting.fit_and_measure` also returns what was measured.

    Parameters
    ----------
    classifier
        A callable from images in [0, 1] to logits.
    images, labels
        Clean images [N, C, H, W] in [0, 1] that the classifier was not trained on, and their classes [N]. Or a
        `Dataset`, the path of a folder or an .npz file, or the name of a known data set, without labels.
    classes
        Class names for tensors; numbers by default.
    purifier
        "vae" trains one on the images, "pca" fits one; any other name that `alu.loading.load_purifier` knows, such as
        "jpeg", "cifar10-vae" or "diffpure@20"; a .safetensors file with a VAE; or a `Purifier` of your own.
    steps
        A VAE's latent steps per image; more is slower and keeps more clean answers.
    solver
        How a VAE makes them: "adam", or "learned", which trains a network that takes their place (see `LatentVAE`);
        `steps` is then not used, and `epochs` and `max_minutes` hold for each of the two trainings.
    detector
        "peak" (the largest absolute logit change), "shift" (the sum of the absolute logit changes, the paper's) or
        "disagreement" (how far the class probabilities move apart), which classifiers that give log-probabilities get.
    rule, reference
        What to answer, and what logits are compared with: see `Defense`. Rule "auto" takes "graded", "alu" or
        "purified", whichever loses least, where it loses most, on clean, attacked and harmlessly changed validation
        images.
    false_alarm
        The share of clean images that may be flagged.
    suspicious
        The p-value up to which an image is suspicious: see `Defense`. By default rule "graded" takes 0.02, 0.05, 0.1 or
        0.2, chosen with the rule, and the other rules, whose answers do not depend on it, 0.02.
    epochs, max_minutes
        How long the VAE is trained (about 2,500 steps by default), and what is refused as too long.
    checkpoint
        A folder from which an interrupted training of the VAE goes on.
    force
        Return a harmful defence all the same.
    seed, device
        The seed of all random numbers, and where to compute; where the classifier's weights are by default.
    workers
        How many processes attack the classifier with PGD, or `alu.Workers`; training is not shared out.
    watch
        Called with (current work, amount done, amount in all).

    Examples
    --------
    >>> clean = alu.data.sample("calibration", n=200)
    >>> defense = alu.fit(classifier, clean.images, clean.labels, purifier="jpeg", false_alarm=0.05)
    """
    plan = Plan(
        purifier=purifier, steps=steps, solver=solver, detector=detector, rule=rule, reference=reference,
        false_alarm=false_alarm, suspicious=suspicious, epochs=epochs, max_minutes=max_minutes, checkpoint=checkpoint,
        seed=seed,
        device=_device_of(classifier) if device is None else device,
    )  # fmt: skip
    fitted = fit_and_measure(classifier, images, labels, plan, classes=classes, workers=workers, watch=watch)
    if not force:
        fitted.refuse_harm()
    for concern in fitted.concerns():
        warn(concern)
    return fitted.defense


def fit_and_measure(
    classifier: Callable[[Tensor], Any],
    images: Images,
    labels: Tensor | None = None,
    plan: Plan | None = None,
    *,
    classes: Sequence[str] | None = None,
    workers: int | Pool | None = None,
    watch: Watch = silent,
) -> Fitted:
    """The defence that `fit` returns, harmful or not, with all that was measured; `images` may also be the splits."""
    plan = plan or Plan()
    with pool_of(workers) as pool:  # nothing is started before there is something to attack
        pool.refuse_device(plan.device)
        return _fitted(classifier, images, labels, plan, classes, pool, watch)


def _fitted(
    classifier: Callable[[Tensor], Any],
    images: Images,
    labels: Tensor | None,
    plan: Plan,
    classes: Sequence[str] | None,
    pool: Pool,
    watch: Watch,
) -> Fitted:
    started = time.monotonic()
    if hasattr(classifier, "to"):
        classifier = classifier.to(plan.device)
    parts = _split(classifier, images, labels, classes, plan)
    clean, held_out = parts["calibration"], parts["test"]
    _check_classifier(classifier, clean, plan.device, watch)
    _refuse_too_few(len(clean), plan.false_alarm)
    purifier = _purifier(classifier, parts, plan, watch).to(plan.device)
    rule: RuleName = "alu" if plan.rule == "auto" else plan.rule
    defense = Defense(
        classifier, purifier, _detector(classifier, plan), rule, plan.reference,
        suspicious=WIDTHS[0] if plan.suspicious is None else plan.suspicious,
    )  # fmt: skip
    told, batches = partial(watch, "Calibrating"), clean.batches(at_once(clean.shape, 100), plan.device)
    told(0, len(clean))
    defense.calibrate(batches, watch=lambda done, _: told(done, len(clean)))
    defense.classes = clean.classes
    why = ""
    if plan.chooses:
        apart = parts.get("validation", clean)
        apart = apart if len(apart) >= FEWEST else clean
        rules = CANDIDATES if plan.rule == "auto" else (rule,)
        widths = WIDTHS if plan.suspicious is None else ()
        choice = choose(defense, apart, rules, widths, seed=plan.seed, device=plan.device, watch=watch, workers=pool)
        defense, why = defense.with_rule(choice.rule, choice.suspicious), str(choice)
    return measure(
        defense, held_out, seed=plan.seed, device=plan.device, watch=watch, started=started, why=why, workers=pool
    )


def _split(
    classifier: Callable[[Tensor], Any],
    images: Images,
    labels: Tensor | None,
    classes: Sequence[str] | None,
    plan: Plan,
) -> Mapping[str, Dataset]:
    """The parts of the images that the plan needs; tensors are divided like the pictures of a folder. Where a
    classifier knows the names of its classes, labels follow it."""
    if isinstance(images, Tensor):
        if labels is None:
            raise UsageError("fit needs the labels of its images: alu.fit(classifier, images, labels).")
        check_images(images, "fit")
        check_labels(labels, len(images), None, "fit")
        if classes is None and isinstance(classifier, Adapter):
            classes = classifier.classes
        elif classes is None and len(images):
            few = images[:2].to(plan.device)
            with evaluating(classifier):
                logits = check_classifier(
                    classifier, few, "images", None, f"The classifier {type(classifier).__name__}"
                )
            classes = tuple(map(str, range(logits.shape[1])))
        images = Dataset(images.detach().cpu(), labels.cpu(), tuple(classes or ()))
    elif labels is not None or classes is not None:
        raise UsageError("fit takes labels and class names from the data set. Give it neither of them.")
    parts: Mapping[str, Dataset]
    if isinstance(images, Dataset):
        parts = {name: images.take(own_part(images.labels, name), name) for name in plan.parts}
    elif isinstance(images, str | Path):
        parts = {name: open_dataset(images, name) for name in plan.parts}
    else:
        parts = images
    if isinstance(classifier, Adapter):
        return {name: part.relabelled(classifier.classes, classifier.__name__) for name, part in parts.items()}
    return parts


def _detector(classifier: object, plan: Plan) -> Detector:
    """The detector of the plan; for log-probabilities one that does not count the constant they leave out."""
    kind = DETECTORS[plan.detector]
    if kind.counts_constants and getattr(classifier, "log_probabilities", False):
        warn(
            f"{_name_of(classifier)} answers with logarithms of probabilities, which are logits but for a constant for "
            f'each image. The detector "{plan.detector}" would count that constant; "disagreement", which does not see '
            "it, is used."
        )
        kind = Disagreement
    return kind(plan.false_alarm)


def _purifier(classifier: Callable[[Tensor], Any], parts: Mapping[str, Dataset], plan: Plan, watch: Watch) -> Purifier:
    """The purifier that the plan holds or names, fitted or trained where it needs to be."""
    if isinstance(plan.purifier, Purifier):
        return plan.purifier
    if plan.purifier == "pca":
        train_part = parts["train"]
        some = train_part.draw(min(at_once(train_part.shape, MOST_FITTED), len(train_part)), plan.seed).images
        watch("Fitting PCA", 0, 1)
        fitted = PCA(max(1, min(500, some[0].numel() // 6, len(some) - 1))).fit(some)
        watch("Fitting PCA", 1, 1)
        return fitted
    if plan.purifier == "vae":
        how: dict[str, Any] = {
            "epochs": plan.epochs, "max_minutes": plan.max_minutes, "seed": plan.seed, "device": plan.device,
            "folder": None if plan.checkpoint is None else Path(plan.checkpoint), "replaces": plan.replaces,
            "watch": watch,
        }  # fmt: skip
        if plan.solver == "learned":
            learned = train_with_learned(parts["train"], parts["validation"], **how)
            return LatentVAE(learned, solver="learned", seed=plan.seed)
        vae = train_vae(parts["train"], parts["validation"], steps=plan.steps, **how)
        return LatentVAE(vae, steps=plan.steps, seed=plan.seed)
    network = classifier if isinstance(classifier, nn.Module) else None
    return load_purifier(plan.purifier, steps=plan.steps, seed=plan.seed, classifier=network)


def _device_of(classifier: object) -> str:
    """Where a module's weights are; anything else computes where it likes, and gets its images on the CPU."""
    weights = classifier.parameters() if isinstance(classifier, nn.Module) else iter(())
    first = next(weights, None)
    return "cpu" if first is None else str(first.device)


def _name_of(classifier: object) -> str:
    return f"The classifier {type(classifier).__name__}"


def _refuse_too_few(count: int, false_alarm: float) -> None:
    """Refuse, before the purifier is trained, a calibration in which nothing could ever be flagged."""
    least = fewest_clean(false_alarm)
    if count < least:
        possible = math.ceil(1000 / (count + 1)) / 1000
        raise InputError(
            f"A false-alarm rate of {100 * false_alarm:g} % needs at least {least} calibration images, which are 15 % "
            f"of your own pictures; there are {count}. Give about {math.ceil(least / 0.15)} pictures in all, or allow "
            f"more false alarms: false_alarm={possible:g}."
        )


def _check_classifier(classifier: Callable[[Tensor], Any], data: Dataset, device: str, watch: Watch) -> None:
    """Fail early, on a few images, with a sentence about what the classifier does wrong."""
    if len(data.classes) < 2:
        raise DataError(f"{data.name} has one class only, {data.classes[0]}; a classifier needs at least two.")
    few = data.draw(min(100, len(data)), 0)
    who = _name_of(classifier)
    images, labels = few.images[: at_once(data.shape, 100)].to(device), few.labels.to(device)
    with evaluating(classifier):
        logits, again = (check_classifier(classifier, images, data.name, data.classes, who) for _ in range(2))
    if not torch.equal(logits, again):
        warn(
            f"{who} gives different logits for the same images, which the detector will mistake for attacks. Make it "
            "deterministic if you can."
        )
    found = check_normalisation(classifier, few.images.to(device), labels, who)
    watch(f"The classifier is right on {found.right.count} of {found.right.n} images", found.right.n, found.right.n)
    # Twice the luck of the draw; of two classes that would be all images, so that 0.6 is the most that is asked for.
    if found.better is not None:
        warn(str(found))
    elif len(few) >= 50 and found.right.count < min(2 / len(data.classes), 0.6) * len(few):
        warn(
            f"{who} is right on only {found.right.count} of {len(few)} images. Does it expect normalised images, or "
            "the classes in another order than the sorted folder names?"
        )
