"""Recipe: what to build and how to train it, before any data is read or any network is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from alu import data, models
from alu.decoding import Size
from alu.errors import UsageError, nearest
from alu.models.cards import weight_hash
from alu.provenance import provenance
from alu.rng import derived_seed
from alu.storage import read_tensors
from alu.training.loop import Run
from alu.training.objectives import Objective
from alu.training.settings import Settings


@dataclass(frozen=True)
class Recipe:
    """A training by name. `build` gets the training images; `needs` are bundled models that it starts from."""

    about: str
    """What it trains, as a sentence."""
    dataset: str
    """A known data set, or "" where the user brings images."""
    build: Callable[[data.Dataset], nn.Module]
    objective: Callable[[], Objective]
    settings: Settings
    task: str = "classifier"
    """"classifier", "vae", "denoiser", "score", "energy" or "contrastive", as on a card."""
    needs: tuple[str, ...] = ()
    continues: str = ""
    """A recipe whose run this one is fine-tuned from; it must be given as `start`."""
    name: str = ""
    differs: str = ""
    """How it differs from its paper, as sentences, for its card."""

    def settings_for(self, images: data.Dataset) -> Settings:
        """The settings before any change; a recipe for the user's own images fits them to how many there are."""
        return self.settings

    def run(
        self,
        folder: Path | None,
        device: str = "cpu",
        root: Path | None = None,
        images: str | Path | None = None,
        size: Size = None,
        start: Path | None = None,
        **changes: Any,
    ) -> Run:
        """Read the data and make the network; `start` is a run or a file whose weights it begins with, `changes`
        replace settings by name."""
        unknown = [key for key in changes if key not in Settings.__dataclass_fields__]
        if unknown:
            known = list(Settings.__dataclass_fields__)
            raise UsageError(f"A recipe has no setting {unknown[0]!r}. {nearest(unknown[0], known)}")
        replace(self.settings, **changes)  # refuses a wrong value before any image is read
        spec = self._spec(images)
        self._refuse_missing()
        if self.continues and start is None:
            raise UsageError(
                f"The recipe {self.name} is fine-tuned from a run of {self.continues}: alu train {self.continues}, "
                f"then alu train {self.name} --start runs/{self.continues}."
            )
        train, validation = (data.open_dataset(spec, part, root=root, size=size) for part in ("train", "validation"))
        settings = replace(self.settings_for(train), **changes)
        network = seeded(lambda: self.build(train), settings.seed)
        made = Run(network, self.objective(), train, validation, settings, folder, device)
        if start is not None:
            made.start = self._begun(network, start)
        return made

    def save(self, run: Run, command: str, figures: dict[str, float]) -> Path:
        """Write a finished run's network with its card into the run's folder; returns the path of the weights."""
        assert run.folder is not None
        facts = {
            "held out": {name: round(value, 6) for name, value in figures.items()},
            "n": min(len(run.validation), run.objective.measured_on or len(run.validation)),
            "measured with": provenance(run.settings.seed),
        }
        card = models.Card(
            name="model", task=self.task, architecture=run.model.architecture,  # type: ignore[arg-type]
            data=f"{run.data.name}, {len(run.data):,} images of its {run.data.split} split", command=command,
            source="trained with the command above", licence="yours", sha256="", figures=facts,
            classes=run.data.classes if self.task == "classifier" else (), differs=self.differs,
        )  # fmt: skip
        return models.save(run.model, card, run.folder)

    def _begun(self, network: nn.Module, start: Path) -> str:
        """Put another run's best weights into the network; returns what they are called, and their hash."""
        path = start / "best.safetensors" if start.is_dir() else start
        tensors = read_tensors(path)
        wanted = network.state_dict()
        for name in sorted(tensors.keys() | wanted.keys()):
            shapes = [tuple(held[name].shape) if name in held else None for held in (tensors, wanted)]
            if shapes[0] != shapes[1]:
                raise UsageError(
                    f"{path} does not hold a network that the recipe {self.name} builds: {name} is {shapes[0]} there "
                    f"and {shapes[1]} here. Start from a run of the same architecture and classes."
                )
        network.load_state_dict(tensors)
        return f"{start.stem} {weight_hash(network)[:12]}"

    def _spec(self, images: str | Path | None) -> str | Path:
        if images is None and not self.dataset:
            raise UsageError(
                f"The recipe {self.name} trains on images of your own. Say where they are: --data FOLDER, with one "
                "sub-folder per class."
            )
        if images is not None and self.dataset:
            raise UsageError(
                f"The recipe {self.name} trains on {self.dataset}. With --data, train the recipe classifier or vae."
            )
        return images if images is not None else self.dataset

    def _refuse_missing(self) -> None:
        for needed in self.needs:
            if needed not in models.names():
                files = "" if needed.startswith("cifar10-") else " FOLDER, the folder that --root names"
                raise UsageError(
                    f"The recipe {self.name} starts from the bundled model {needed}, which is not there yet. Make it "
                    f"first: alu train {needed}, then python tools/publish.py {needed} runs/{needed}{files}."
                )


def seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A network whose initial weights depend on the seed alone; the global random state is put back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "initial weights"))
        return build()


def bundled(name: str) -> Callable[[data.Dataset], nn.Module]:
    """A builder that starts from bundled weights."""
    return lambda _: models.load(name)
