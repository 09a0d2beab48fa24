"""Material: images, networks and attacked images that several cells share, each made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from alu import data, models
from alu.attacks.base import Attack
from alu.data.dataset import Dataset
from alu.defense import batched_logits
from alu.loading import load_purifier
from alu.purifiers import Purifier
from alu.purifiers.base import Purification
from alu.training.memory import at_once

SAMPLE, HELD_OUT = 500, 1_500
"""So many CIFAR-10 test images and held-out ones come with the package; more are fetched."""


@dataclass(frozen=True)
class Shown:
    """Images that a defence is shown: their key tells them from all others."""

    key: str
    images: Tensor
    labels: Tensor
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)


class Material:
    """Everything that an experiment is made of. `sizes` says how much; `watch(what, done, total)` is told of it."""

    def __init__(
        self,
        sizes: dict[str, int],
        seed: int = 0,
        device: torch.device | str = "cpu",
        root: Path | None = None,
        watch: Callable[[str, int, int], None] = lambda *_: None,
    ) -> None:
        self.sizes, self.seed, self.device, self.root, self.watch = sizes, seed, device, root, watch
        self.work: Path | None = None
        """A folder of the cell that is being measured, for what is too long to be lost."""
        self._kept: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made the first time only."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def classifier(self, name: str) -> nn.Module:
        """A bundled network."""
        made: nn.Module = self.once(("model", name), lambda: models.load(name).to(self.device))
        return made

    def images(self, dataset: str, split: str, n: int) -> Shown:
        """`n` images of a data set, those of CIFAR-10 from the bundled sample as far as it goes."""

        def opened() -> Dataset:
            if dataset == "cifar10" and split == "test" and n <= SAMPLE:
                return data.sample("test").draw(n, self.seed)
            if dataset == "cifar10" and split == "calibration" and n <= HELD_OUT:
                return data.sample("calibration").draw(n, self.seed)
            root = None if dataset == "cifar10" else self.root
            found = data.open_dataset(dataset, split, root=root)
            return found.draw(min(n, len(found)), self.seed)

        key = f"{dataset}/{split}/{n}"
        found = self.once(("images", key), opened)
        return Shown(key, found.images.to(self.device), found.labels.to(self.device), found.classes)

    def purifier(self, name: str) -> Purifier:
        """A purifier by its name; "cifar10-vae@5" takes 5 steps, 20 if unsaid."""
        found: Purifier = self.once(("purifier", name), lambda: load_purifier(name).to(self.device))
        return found

    def purified(self, name: str, shown: Shown, purifier: Purifier | None = None) -> Purification:
        """What a purifier makes of images, and its reconstruction where it has one. `name` tells purifiers apart."""

        def made() -> Purification:
            used = purifier or self.purifier(name)
            parts = []
            portion = at_once(tuple(shown.images.shape[1:]), 100)
            for start in range(0, len(shown), portion):
                self.watch(f"Purifying {shown.key} ({name})", start, len(shown))
                some = shown.images[start : start + portion]
                with torch.no_grad():
                    parts.append(used.purify(some, reconstruct=used.has_reconstruction))
            self.watch(f"Purifying {shown.key} ({name})", len(shown), len(shown))
            again = [part.reconstruction for part in parts if part.reconstruction is not None]
            return Purification(torch.cat([part.purified for part in parts]), torch.cat(again) if again else None)

        found: Purification = self.once(("purified", name, shown.key), made)
        return found

    def attacked(
        self, key: str, shown: Shown, attack: Any, model: Callable[[Tensor], Any], labels: Tensor | None = None
    ) -> Shown:
        """Images that an attack makes of others; `key` names the attack and what it attacks."""
        key = f"{shown.key}/{key}"

        def made() -> Tensor:
            told = {"watch": partial(self.watch, f"Attacking {key}")} if isinstance(attack, Attack) else {}
            found: Tensor = attack(model, shown.images, shown.labels if labels is None else labels, **told)
            return found

        return Shown(key, self.once(("attacked", key), made), shown.labels, shown.classes)

    def logits(self, name: str, key: str | tuple[str, ...], images: Tensor) -> Tensor:
        """A bundled network's logits; `key` names the images."""
        found: Tensor = self.once(("logits", name, key), lambda: batched_logits(self.classifier(name), images))
        return found
