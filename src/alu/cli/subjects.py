"""What a command evaluates or attacks, and on which images, from the words a user types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from alu import data as datasets
from alu import models
from alu.cli.data import parse_size
from alu.data import Dataset
from alu.defense import Defense
from alu.errors import UsageError, nearest
from alu.experiments.defenses import all_names, by_name
from alu.saving import call_factory, is_defense


class Called(nn.Module):
    """A plain callable as a module, so that it can be moved, counted and evaluated like one."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: Any) -> Any:
        """What the function says."""
        return self.function(images)


def find_subject(name: str, trust: bool = False) -> nn.Module:
    """A saved defence, a bundled one, a bundled classifier, or what "module:function" makes."""
    path = Path(name)
    if path.is_dir() or is_defense(path):
        return Defense.load(path, trust=trust)
    defense = by_name(name)
    if defense is not None:
        return defense
    if ":" in name:
        made = call_factory(name)
        return made if isinstance(made, nn.Module) else Called(made)
    known = models.names("classifier")
    if name not in known:
        raise UsageError(
            f"There is nothing to evaluate under the name {name!r}. {nearest(name, [*all_names(), *known])} "
            "Or give a folder saved by alu fit, or module:function."
        )
    return models.load(name)


def find_images(name: str, n: int | None, seed: int, root: Path | None, size: str | None) -> Dataset:
    """`n` test images of a data set; "sample" is the bundled one."""
    if name == "sample":
        return datasets.sample("test").draw(n, seed)
    return datasets.open_dataset(name, "test", root=root, size=parse_size(size)).draw(n, seed)
