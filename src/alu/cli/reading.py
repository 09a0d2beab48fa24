"""Pictures for alu predict, decoded in the background while the network works on those before them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from alu.cli.answers import Row
from alu.cli.options import Crops
from alu.errors import AluError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Portion:
    """Rows that are answered together: those whose files could be read, their images, and what scaling cut away."""

    rows: list[Row]
    good: list[Row] = field(default_factory=list)
    images: list[Tensor] = field(default_factory=list)
    crops: Crops = field(default_factory=Crops)


def read_ahead(rows: Sequence[Row], size: int, shape: tuple[int, ...], resize: bool) -> Generator[Portion, None, None]:
    """The rows in order, `size` at a time, with their images.

    Never more than one portion is decoded ahead, so memory does not grow with the number of files. One thread is
    enough: decoding a picture costs less than answering it.
    """
    starts = range(0, len(rows), size)
    with ThreadPoolExecutor(1, thread_name_prefix="decoding") as thread:
        following = None
        for start in starts:
            portion = following or thread.submit(read, list(rows[start : start + size]), shape, resize)
            ready = portion.result()
            following = None
            if start + size < len(rows):
                following = thread.submit(read, list(rows[start + size : start + 2 * size]), shape, resize)
            yield ready


def read(rows: list[Row], shape: tuple[int, ...], resize: bool) -> Portion:
    """Decode the files of these rows; a file that cannot be read is reported in its own row."""
    portion = Portion(rows)
    for row in rows:
        if row["error"]:
            continue
        try:
            portion.images.append(_picture(Path(row["file"]), shape, portion.crops if resize else None))
            portion.good.append(row)
        except AluError as error:
            row["error"] = str(error)
    return portion


def _picture(file: Path, shape: tuple[int, ...], crops: Crops | None) -> Tensor:
    """uint8 pixels; with `crops`, a picture of another size is scaled."""
    import torch

    from alu.decoding import fitted
    from alu.storage import explained

    with explained(file, "read"):
        content = file.read_bytes()
    picture = fitted(content, str(file), shape, crops is not None, "Add --resize to scale it.")
    if crops is not None:
        crops.add(file, (shape[1], shape[2]), content)
    return torch.from_numpy(picture)
