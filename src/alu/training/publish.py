"""From a finished run to weights with a card: in its own folder, or, measured, in the package
(`python -m alu.training.publish NAME RUN [ROOT]`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alu import data, models
from alu.errors import AluError, UsageError
from alu.models import Card
from alu.provenance import provenance
from alu.purifiers import PCA
from alu.storage import explained, read_json, read_tensors
from alu.training.checkpoint import progress_of, total_steps
from alu.training.loop import Run
from alu.training.measures import (
    Measured,
    denoiser,
    measure_pca,
    plain_classifier,
    robust_classifier,
    through_vae,
    vae,
)
from alu.training.recipes import Recipe, recipe

SOURCE = "trained by the alu authors with the command above"


def keep(run: Run, task: str, command: str, figures: dict[str, float]) -> Path:
    """Write a finished run's network with its card into the run's folder; returns the path of the weights."""
    assert run.folder is not None
    facts = {
        "held out": {name: round(value, 6) for name, value in figures.items()},
        "n": min(len(run.validation), run.objective.measured_on or len(run.validation)),
        "measured with": provenance(run.settings.seed),
    }
    card = Card(
        name="model", task=task, architecture=run.model.architecture,  # type: ignore[arg-type]
        data=f"{run.data.name}, {len(run.data):,} images of its {run.data.split} split", command=command,
        source="trained with the command above", licence="yours", sha256="", figures=facts,
        classes=run.data.classes if task == "classifier" else (),
    )  # fmt: skip
    return models.save(run.model, card, run.folder)


def measure_of(name: str, made: Recipe) -> Callable[[nn.Module, Measured], dict[str, Any]]:
    """How a bundled model is measured: by its task, and a classifier by how it was trained."""
    if made.task != "classifier":
        return {"vae": vae, "denoiser": denoiser}[made.task]
    if name.endswith(("-unified", "-asymmetric")):
        return through_vae
    return robust_classifier if name == "cifar10-at" else plain_classifier


def publish(
    name: str,
    task: str,
    model: nn.Module,
    command: str,
    trained_on: str,
    figures: dict[str, Any],
    classes: tuple[str, ...] = (),
) -> Path:
    """Write a measured network into the package, in half precision."""
    card = Card(
        name=name, task=task, architecture=model.architecture,  # type: ignore[arg-type]
        data=trained_on, command=command, source=SOURCE, licence="MIT", sha256="",
        figures={**figures, "measured with": provenance(0)}, classes=classes,
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
    return publish(name, made.task, model, command, trained_on, figures, classes)


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
    command = "python -m alu.training.publish cifar10-pca"
    return publish("cifar10-pca", "pca", model, command, "cifar10, 10,000 images of the train split", figures)


def main(words: list[str]) -> None:
    """Publish what the words name; errors are one sentence on standard error."""
    try:
        if len(words) not in ((1,) if words[:1] == ["cifar10-pca"] else (2, 3)):
            raise UsageError(
                "python -m alu.training.publish takes a recipe, the folder of its run and, for data that alu does not "
                "fetch, the folder of its files; or cifar10-pca."
            )
        written = publish_pca() if words[0] == "cifar10-pca" else publish_run(words[0], *map(Path, words[1:]))
    except AluError as error:
        sys.stderr.write(f"alu: {error}\n")
        sys.exit(error.exit_code)
    sys.stdout.write(f"{written}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
