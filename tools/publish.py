"""Measure a finished run's network and put it into the package, with a card of its figures.

python tools/publish.py NAME RUN [ROOT], or python tools/publish.py cifar10-pca
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from alu import data, models
from alu.attacks import PGD
from alu.data.dataset import Dataset
from alu.defense import Defense, batched_logits
from alu.errors import AluError, UsageError
from alu.models import Card
from alu.models.amortised import Amortised
from alu.models.asymmetric import Asymmetric
from alu.models.cards import as_figure
from alu.models.deep_vae import CONVERGING, DeepVAE
from alu.models.denoised import Denoised
from alu.models.energy import Energy
from alu.progress import at_once
from alu.provenance import provenance
from alu.purifiers import (
    ADP,
    PCA,
    SOAP,
    DiffPure,
    InnerVAE,
    LatentVAE,
    LongRun,
    Purifier,
    ReverseAttack,
    UNet,
)
from alu.rng import generator
from alu.stats import Share
from alu.storage import explained, read_json, read_tensors
from alu.training.checkpoint import progress_of, total_steps
from alu.training.objectives import Consistency
from alu.training.recipes import Recipe, recipe

SOURCE = "trained by the alu authors with the command above"
ATTACKED = 500
"""Test images under attack."""


@dataclass(frozen=True)
class Measured:
    """A model to be published: its name, its data set's name, and the images it is measured on."""

    name: str
    dataset: str
    test: Dataset

    def figure(self, right: Tensor) -> dict[str, Any]:
        """A share with its number of images and interval, as plain values."""
        on = f"{self.dataset} test" if len(right) == len(self.test) else f"{len(right):,} of {self.dataset} test"
        return as_figure(Share(int(right.sum()), len(right)), on)

    def some(self, n: int) -> Dataset:
        """At most `n` test images, drawn by seed 0."""
        return self.test.draw(min(n, len(self.test)))

    @property
    def stepped(self) -> Dataset:
        """The test images that are optimised for 20 latent steps: all for the two that are promised so, else 2,000."""
        return self.test if self.name in ("cifar10-vae", "cifar10-unified") else self.some(2_000)

    @property
    def standard(self) -> str:
        """The clean classifier of the same data set."""
        return f"{self.dataset}-standard"


def _right(classifier: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    return batched_logits(classifier, images).argmax(1) == labels


def _through(purifier: Purifier, images: Tensor) -> Tensor:
    portion = at_once(tuple(images.shape[1:]), 100)
    with torch.no_grad():
        return torch.cat([purifier(part) for part in torch.split(images, portion)])


def _latent(vae: nn.Module, steps: int) -> LatentVAE:
    """The VAE as it is deployed."""
    return LatentVAE(vae, steps=steps, **(CONVERGING if isinstance(vae, DeepVAE) else {}))


def _attacked(model: nn.Module, about: Measured, steps: Sequence[int]) -> dict[str, Any]:
    few = about.some(ATTACKED)
    found = {}
    for count in steps:
        images = PGD(eps=8 / 255, steps=count)(model, few.images, few.labels)
        found[f"PGD-{count}, 8/255"] = about.figure(_right(model, images, few.labels))
    return found


def plain_classifier(model: nn.Module, about: Measured) -> dict[str, Any]:
    """Clean accuracy on the whole test set, and under PGD-20."""
    clean = about.figure(_right(model, about.test.images, about.test.labels))
    return {"clean accuracy": clean, **_attacked(model, about, (20,))}


def robust_classifier(model: nn.Module, about: Measured) -> dict[str, Any]:
    """The same, and PGD-50 beside PGD-10, which are far apart where a training has overfitted catastrophically."""
    return {**plain_classifier(model, about), **_attacked(model, about, (10, 50))}


def through_vae(model: nn.Module, about: Measured) -> dict[str, Any]:
    """Clean accuracy as it is deployed, through the VAE, without latent steps and after 20; and on bare images."""
    name = f"{about.dataset}-vae" + ("-deep" if about.name.endswith("-deep") else "")
    found: dict[str, Any] = {}
    for steps, some in ((0, about.test), (20, about.stepped)):
        made = InnerVAE(model, steps=steps) if isinstance(model, Asymmetric) else _latent(models.load(name), steps)
        right = _right(model, _through(made, some.images), some.labels)
        found[f"clean accuracy through {name}, {steps} steps"] = about.figure(right)
    if not isinstance(model, Asymmetric):  # which reads nothing but the VAE
        found["clean accuracy on bare images"] = about.figure(_right(model, about.test.images, about.test.labels))
    return {**found, **_attacked(model, about, (20,))}


def denoiser(model: nn.Module, about: Measured) -> dict[str, Any]:
    """The clean classifier's accuracy on denoised images: clean, and under PGD-20 that does not know the denoiser."""
    classifier, purifier, few = models.load(about.standard), UNet(model), about.some(ATTACKED)
    attacked = PGD(eps=8 / 255, steps=20)(classifier, few.images, few.labels)
    clean = _right(classifier, _through(purifier, about.test.images), about.test.labels)
    return {
        f"{about.standard} after denoising, clean": about.figure(clean),
        f"{about.standard} after denoising, oblivious PGD-20, 8/255": about.figure(
            _right(classifier, _through(purifier, attacked), few.labels)
        ),
        f"{about.standard} alone, PGD-20, 8/255": about.figure(_right(classifier, attacked, few.labels)),
    }


def noisy_accuracy(model: nn.Module, about: Measured, sigma: float) -> dict[str, Any]:
    """Right answers under one draw of noise for each test image, which is not clipped."""
    noise = torch.empty(about.test.images.shape).normal_(generator=generator(0, "published noise"))
    right = _right(model, about.test.images + sigma * noise, about.test.labels)
    return {f"accuracy under noise of {sigma:g}": about.figure(right)}


def smoothing_classifier(model: nn.Module, about: Measured) -> dict[str, Any]:
    """As any classifier, and under the noise that it was trained on."""
    return {**plain_classifier(model, about), **noisy_accuracy(model, about, _sigma(about.name))}


def noise_denoiser(model: nn.Module, about: Measured) -> dict[str, Any]:
    """The clean classifier's accuracy on denoised images: clean, and under the noise; and under it alone."""
    classifier, sigma = models.load(about.standard), _sigma(about.name)
    plugged = Denoised(model, classifier)
    clean = _right(plugged, about.test.images, about.test.labels)
    both = {f"{about.standard} after denoising": plugged, f"{about.standard} alone": classifier}
    found = {f"{about.standard} after denoising, clean": about.figure(clean)}
    for name, one in both.items():
        found |= {f"{name}, {what}": figure for what, figure in noisy_accuracy(one, about, sigma).items()}
    return found


def _sigma(name: str) -> float:
    """The noise that a recipe trains on."""
    objective = recipe(name).objective()
    assert isinstance(objective, Consistency)
    return objective.sigma


def behind(classifier: nn.Module, name: str, purifiers: Sequence[Purifier], about: Measured) -> dict[str, Any]:
    """A classifier behind each purifier as it is deployed: clean, and under PGD-20 that does not know the purifier; and
    alone under the same attack."""
    few = about.some(ATTACKED)
    attacked = PGD(eps=8 / 255, steps=20)(classifier, few.images, few.labels)
    found = {}
    for purifier in purifiers:
        defense = Defense(classifier, purifier, rule="purified")
        for what, images in {"clean": few.images, "oblivious PGD-20, 8/255": attacked}.items():
            right = defense.decide(images, at_once(few.shape, 100)).label == few.labels
            found[f"{name} behind {type(purifier).__name__}, {what}"] = about.figure(right)
    return {**found, f"{name} alone, PGD-20, 8/255": about.figure(_right(classifier, attacked, few.labels))}


def score_network(model: nn.Module, about: Measured) -> dict[str, Any]:
    """The clean classifier behind both methods that follow a score."""
    return behind(models.load(about.standard), about.standard, [ADP(model), DiffPure(model)], about)


def energy(model: nn.Module, about: Measured) -> dict[str, Any]:
    """The clean classifier behind long-run Langevin dynamics."""
    return behind(models.load(about.standard), about.standard, [LongRun(model)], about)


def contrastive(model: nn.Module, about: Measured) -> dict[str, Any]:
    """The robust classifier behind the reverse attack."""
    robust = f"{about.dataset}-at"
    return behind(models.load(robust), robust, [ReverseAttack(model)], about)


def consistent_classifier(model: nn.Module, about: Measured) -> dict[str, Any]:
    """As any classifier, and behind SOAP, which it is trained for."""
    return {**plain_classifier(model, about), **behind(model, about.name, [SOAP(model)], about)}


def vae(model: nn.Module, about: Measured) -> dict[str, Any]:
    """Reconstruction error and, where the clean classifier is there, how many of its answers survive."""
    classifier = models.load(about.standard) if about.standard in models.names() else None
    found: dict[str, Any] = {}
    for steps, some in ((0, about.test), (20, about.stepped)):
        purified = _through(_latent(model, steps), some.images)
        if classifier is not None:
            right = _right(classifier, purified, some.labels)
            found[f"{about.standard} after {steps} steps"] = about.figure(right)
        found[f"rmse after {steps} steps"] = round(float((purified - some.images).square().mean().sqrt()), 5)
    return found


def learned_steps(model: nn.Module, about: Measured) -> dict[str, Any]:
    """As for a VAE, with each number of learned steps; nothing of the VAE that is bundled may have changed."""
    assert isinstance(model, Amortised)
    _refuse_changed(model, f"{about.dataset}-vae")
    classifier = models.load(about.standard)
    found: dict[str, Any] = {}
    for steps in range(len(model.corrections), -1, -1):
        purified = _through(LatentVAE(model, solver="learned", steps=steps), about.test.images)
        right = _right(classifier, purified, about.test.labels)
        found[f"{about.standard} after {steps} learned"] = about.figure(right)
        found[f"rmse after {steps} learned"] = round(float((purified - about.test.images).square().mean().sqrt()), 5)
    return found


def _refuse_changed(model: Amortised, name: str) -> None:
    """The paper's loop in the network must be the one that everything was measured with."""
    bundled = models.load(name).state_dict()
    if any(not torch.equal(weight, bundled[key]) for key, weight in model.vae.state_dict().items()):
        raise UsageError(f"The VAE inside this run is not the bundled {name}. Train its learned steps again.")


def measure_pca(model: nn.Module) -> dict[str, Any]:
    """How many answers of `cifar10-standard` survive the projection."""
    about = Measured("cifar10-pca", "cifar10", data.cifar10("test"))
    with torch.no_grad():
        projected = model(about.test.images).clamp(0, 1)
    right = _right(models.load(about.standard), projected, about.test.labels)
    return {f"{about.standard} after projection": about.figure(right)}


def measure_of(name: str, made: Recipe) -> Callable[[nn.Module, Measured], dict[str, Any]]:
    """How a bundled model is measured: by its task, and a classifier by how it was trained."""
    for ending, kind in {"-denoiser": noise_denoiser, "-vae-learned": learned_steps}.items():
        if name.endswith(ending):
            return kind
    if made.task != "classifier":
        kinds = {"vae": vae, "denoiser": denoiser, "score": score_network, "energy": energy, "contrastive": contrastive}
        return kinds[made.task]
    if name.endswith("-soap"):
        return consistent_classifier
    if name.endswith(("-unified", "-unified-deep", "-asymmetric")):
        return through_vae
    if "-smooth" in name:
        return smoothing_classifier
    return robust_classifier if name == "cifar10-at" else plain_classifier


def publish(
    name: str,
    task: str,
    model: nn.Module,
    command: str,
    trained_on: str,
    figures: dict[str, Any],
    classes: tuple[str, ...] = (),
    differs: str = "",
) -> Path:
    """Write a measured network into the package, in half precision."""
    card = Card(
        name=name, task=task, architecture=model.architecture,  # type: ignore[arg-type]
        data=trained_on, command=command, source=SOURCE, licence="MIT", sha256="",
        figures={**figures, "measured with": provenance(0)}, classes=classes, differs=differs,
    )  # fmt: skip
    return models.save(model, card, half=True)


def publish_run(name: str, folder: Path, root: Path | None = None) -> Path:
    """Measure and publish the best weights of a run of the recipe `name`; `root` is where its data set's files are."""
    made = recipe(name)
    facts = read_json(folder / "run.json")
    _refuse_unfinished(made, folder, facts)
    changes = _changes(made.settings.as_json(), facts["settings"])
    command = f"alu train {name}" + changes + ("" if root is None else " --root FOLDER")
    if "start" in facts:
        first = facts["start"].split(" ")[0]
        command = f"alu train {first} && {command} --start runs/{first}"
    model = models.rebuild(facts["architecture"])
    model.load_state_dict(read_tensors(folder / "best.safetensors"))
    # What only training needs stays behind.
    model = model.published() if isinstance(model, Energy) else model
    # Rounded before it is measured: the figures on the card are those of the weights in the package.
    model = models.rounded(model).to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    about = Measured(name, made.dataset, data.open_dataset(made.dataset, "test", root=root))
    figures = measure_of(name, made)(model, about)
    trained_on = f"{made.dataset}, {facts['data'][2]:,} images of the train split"
    if root is not None:
        trained_on += f" of the files in --root, {facts['data'][2] // len(about.test.classes)} a class"
    if made.needs:
        trained_on += f"; with {' and '.join(made.needs)}"
    classes = about.test.classes if made.task == "classifier" else ()
    return publish(name, made.task, model, command, trained_on, figures, classes, made.differs)


def _refuse_unfinished(made: Recipe, folder: Path, facts: dict[str, Any]) -> None:
    """A card says what its command gives: the whole training, by the recipe as it is now."""
    done, total = _steps_done(folder), total_steps(facts)
    if done < total:
        raise UsageError(f"{folder} is not finished: {done} of {total} steps. Go on with alu train {made.name}.")
    wanted = json.loads(json.dumps(made.objective().as_json()))
    if facts["objective"] != wanted:
        raise UsageError(
            f"{folder} was trained with another objective than the recipe {made.name} has now: {facts['objective']}, "
            f"not {wanted}. Train it again."
        )


def _steps_done(folder: Path) -> int:
    """From the checkpoint or, where only weights and curve were kept, from the last held-out figure."""
    checkpoint = folder / "checkpoint.safetensors"
    if checkpoint.exists():
        return progress_of(checkpoint).step
    with explained(folder / "curve.jsonl", "read"):
        lines = (folder / "curve.jsonl").read_text().splitlines()
    return max((int(row["step"]) for row in map(json.loads, lines) if "epoch" in row), default=0)


def _changes(standard: dict[str, Any], used: dict[str, Any]) -> str:
    """The --set words of a run that changed the recipe's settings."""
    return "".join(f" --set {key}={value}" for key, value in used.items() if standard.get(key) != value)


def publish_pca() -> Path:
    """Fit 500 directions on 10,000 training images and publish them in half precision."""
    images = data.cifar10("train", n=10_000).images
    fitted = PCA(500).fit(images)
    model: nn.Module = models.projection(500, images[0].numel())
    model.load_state_dict(fitted.state_dict())
    model = models.rounded(model)
    figures = measure_pca(model)
    command = "python tools/publish.py cifar10-pca"
    return publish("cifar10-pca", "pca", model, command, "cifar10, 10,000 images of the train split", figures)


def main(words: list[str]) -> None:
    """Publish what the words name; errors are one sentence on standard error."""
    try:
        if len(words) not in ((1,) if words[:1] == ["cifar10-pca"] else (2, 3)):
            raise UsageError(
                "python tools/publish.py takes a recipe, the folder of its run and, for data that alu does not "
                "fetch, the folder of its files; or cifar10-pca."
            )
        written = publish_pca() if words[0] == "cifar10-pca" else publish_run(words[0], *map(Path, words[1:]))
    except AluError as error:
        sys.stderr.write(f"alu: {error}\n")
        sys.exit(error.exit_code)
    sys.stdout.write(f"{written}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
