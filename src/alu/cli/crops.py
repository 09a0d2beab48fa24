"""How much of a picture is cut away when it is scaled to cover another shape; more than a tenth is worth a warning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MOST_CUT = 0.10


def cut_away(file: Path, size: tuple[int, int]) -> float:
    """The share of a picture's area that is lost when it is scaled to cover (height, width)."""
    from alu.data.pictures import opened, shown_size

    with opened(file, str(file)) as picture:
        width, height = shown_size(picture)
    ratio = (width * size[0]) / (height * size[1])
    return 1 - min(ratio, 1 / ratio)


@dataclass
class Crops:
    """How many pictures lose more than a tenth, and which loses most."""

    count: int = 0
    worst: float = 0.0
    file: str = ""

    def add(self, file: Path, size: tuple[int, int]) -> None:
        """Look at one more picture."""
        cut = cut_away(file, size)
        self.count += cut > MOST_CUT
        if cut > self.worst:
            self.worst, self.file = cut, str(file)

    def sentence(self, option: str, total: int) -> str:
        """A warning, or nothing if no picture loses much."""
        if not self.count:
            return ""
        return (
            f"{option} cuts more than a tenth of the picture away in {self.count:,} of {total:,} files; most in "
            f"{self.file}, which loses {100 * self.worst:.0f} %."
        )


def crops_of(files: Iterable[Path], size: tuple[int, int]) -> Crops:
    """What scaling to (height, width) cuts away from these files."""
    found = Crops()
    for file in files:
        found.add(file, size)
    return found
