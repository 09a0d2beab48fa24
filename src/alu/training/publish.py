"""From a finished run to bundled weights with a card of measured figures: `python -m alu.training.publish NAME RUN`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from alu import data, models
from alu.attacks import PGD
from alu.data.cifar10 import CLASSES
from alu.defense import batched_logits
from alu.evaluation.intervals import Share
from alu.models import Card
from alu.provenance import provenance
from alu.purifiers import PCA, LatentVAE
from alu.storage import read_json, read_tensors
from alu.training.recipes import recipe

SOURCE = "trained by the alu authors with the command above"
DATA = "CIFAR-10, the 45,000 images of the train split"


def figure(right: Tensor, on: str) -> dict[str, Any]:
    """A share with its number of images and interval, as plain values."""
    share = Share(int(right.sum()), len(right))
    low, high = share.interval
    return {"percent": round(100 * share.value, 2), "interval": [round(100 * low, 2), round(100 * high, 2)],
            "n": share.n, "on": on}  # fmt: skip


def measure_classifier(model: nn.Module) -> dict[str, Any]:
    """Clean accuracy on the whole test set, and under PGD-20 on 500 of its images."""
    test = data.cifar10("test")
    few = data.cifar10("test", n=500)
    attacked = PGD(eps=8 / 255, steps=20)(model, few.images, few.labels)
    return {
        "clean accuracy": figure(batched_logits(model, test.images).argmax(1) == test.labels, "CIFAR-10 test"),
        "PGD-20, 8/255": figure(batched_logits(model, attacked).argmax(1) == few.labels, "500 of CIFAR-10 test"),
    }


def measure_vae(model: nn.Module) -> dict[str, Any]:
    """Reconstruction error, and how many answers of `cifar10-standard` survive with and without latent steps."""
    test = data.cifar10("test")
    classifier = models.load("cifar10-standard")
    found: dict[str, Any] = {}
    for steps, n in ((0, 10_000), (20, 2_000)):
        purifier = LatentVAE(model, steps=steps)
        images, labels = test.images[:n], test.labels[:n]
        purified = torch.cat([purifier(images[start : start + 100]) for start in range(0, n, 100)])
        right = batched_logits(classifier, purified).argmax(1) == labels
        found[f"cifar10-standard after {steps} steps"] = figure(right, f"the first {n} of CIFAR-10 test")
        found[f"rmse after {steps} steps"] = round(float((purified - images).square().mean().sqrt()), 5)
    return found


def measure_pca(model: nn.Module) -> dict[str, Any]:
    """How many answers of `cifar10-standard` survive the projection."""
    test = data.cifar10("test", n=2_000)
    with torch.no_grad():
        projected = model(test.images).clamp(0, 1)
    right = batched_logits(models.load("cifar10-standard"), projected).argmax(1) == test.labels
    return {"cifar10-standard after projection": figure(right, "2,000 of CIFAR-10 test")}


MEASURES: dict[str, Callable[[nn.Module], dict[str, Any]]] = {
    "classifier": measure_classifier,
    "vae": measure_vae,
    "pca": measure_pca,
}


def publish(name: str, task: str, model: nn.Module, command: str, trained_on: str = DATA) -> Path:
    """Measure a network and write it into the package."""
    model.eval()
    figures = {**MEASURES[task](model), "measured with": provenance(0)}
    card = Card(
        name=name, task=task, architecture=model.architecture,  # type: ignore[arg-type]
        data=trained_on, command=command, source=SOURCE, licence="MIT", sha256="", figures=figures,
        classes=CLASSES if task == "classifier" else (),
    )  # fmt: skip
    return models.save(model, card)


def publish_run(name: str, folder: Path) -> Path:
    """Publish the best weights of a run of the recipe `name`."""
    made = recipe(name)
    command = f"alu train {name}" + _changes(made.settings.as_json(), read_json(folder / "run.json")["settings"])
    model = made.build()
    model.load_state_dict(read_tensors(folder / "best.safetensors"))
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    task = "classifier" if type(made.objective).__name__ == "Classification" else "vae"
    return publish(name, task, model, command)


def _changes(standard: dict[str, Any], used: dict[str, Any]) -> str:
    """The --set words of a run that changed the recipe's settings."""
    return "".join(f" --set {key}={value}" for key, value in used.items() if standard.get(key) != value)


def publish_pca() -> Path:
    """Fit 500 directions on 10,000 training images and publish them in half precision."""
    images = data.cifar10("train", n=10_000).images
    fitted = PCA(500).fit(images)
    model = models.projection(500, images[0].numel())
    rounded = {key: value.half().float() for key, value in fitted.state_dict().items()}
    model.load_state_dict(rounded)
    path = publish("cifar10-pca", "pca", model, "python -m alu.training.publish cifar10-pca", "10,000 of " + DATA)
    from alu.storage import write_tensors

    # The values are already representable in half precision, so storing them so loses nothing more.
    write_tensors(path, {key: value.half() for key, value in model.state_dict().items()})
    return path


if __name__ == "__main__":
    which = sys.argv[1]
    written = publish_pca() if which == "cifar10-pca" else publish_run(which, Path(sys.argv[2]))
    sys.stdout.write(f"{written}\n")
