"""The known data sets by name, and `open_dataset` for all of them: a name, a folder or an .npz file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from alu.data.cache import CachedCopy, cached_copies
from alu.data.cifar import FILES100, SAMPLE, SAMPLE_SPLITS, cifar10, cifar100, find_cifar10, sample
from alu.data.dataset import Dataset
from alu.data.fashion_mnist import fashion_mnist, find_fashion_mnist
from alu.data.own import folder, npz
from alu.data.splits import SPLITS
from alu.data.tiny_imagenet import TINY_IMAGENET, tiny_imagenet
from alu.decoding import Size
from alu.errors import AluError, DataError, UsageError, nearest
from alu.storage import explained

Root = str | Path | None


@dataclass(frozen=True)
class Known:
    """A data set with a name: what it is, how it is read, and where its images come from."""

    about: str
    load: Callable[[str, int | None, int, Root], Dataset]
    find: Callable[[Root], CachedCopy | Path]
    splits: tuple[str, ...] = SPLITS


KNOWN = {
    "cifar10": Known("60,000 colour images, 32 x 32, 10 classes", cifar10, find_cifar10),
    "cifar10-sample": Known(
        "2,000 images of CIFAR-10 inside this package",
        lambda split, n, seed, _: sample(split, n, seed),
        lambda _: SAMPLE,
        SAMPLE_SPLITS,
    ),
    "cifar100": Known("60,000 colour images, 32 x 32, 100 classes", cifar100, FILES100.find),
    "tiny-imagenet": Known("110,000 colour images, 64 x 64, 200 classes", tiny_imagenet, TINY_IMAGENET.find),
    "fashion-mnist": Known("70,000 gray images, 28 x 28, 10 classes", fashion_mnist, find_fashion_mnist),
}


def open_dataset(
    spec: str | Path, split: str, n: int | None = None, seed: int = 0, root: Root = None, *, size: Size = None,
    channels: int | None = None,
) -> Dataset:  # fmt: skip
    """One split of the data set that `spec` means: a known name, a folder of pictures, or an .npz file.

    `root` goes with a name and says where its files are; `size` and `channels` go with a folder: its pictures are
    scaled to that size, and read as gray (1), RGB (3) or RGBA (4). Other images keep the channels they have.
    """
    name = known_name(spec)
    if name is not None:
        if size is not None:
            raise UsageError(f"{name} has images of one size already; a size is only for folders of pictures.")
        if root is not None and name == "cifar10-sample":
            raise UsageError(f"{name} comes with the package; a root is only for data sets whose files lie elsewhere.")
        if split not in KNOWN[name].splits and split in SPLITS:
            raise UsageError(
                f"{name} has no {split} images, only {' and '.join(KNOWN[name].splits)}. Use cifar10, or your own."
            )
        return KNOWN[name].load(split, n, seed, root)
    place = Path(spec)
    if root is not None:
        raise UsageError(f"{place} is a path already; a root is only for names such as {', '.join(KNOWN)}.")
    if place.is_dir():
        return folder(place, split, n, seed, size=size, channels=channels)
    if size is not None:
        raise UsageError(f"{place} holds images of one size already; a size is only for folders of pictures.")
    return npz(place, split, n, seed)


def known_name(spec: str | Path) -> str | None:
    """The known name that `spec` is, or None if it is the path of a folder or an .npz file."""
    name = str(spec).replace("_", "-")
    if name in KNOWN:
        return name
    if not name:
        raise UsageError(f"A data set's name is empty. Give a folder, an .npz file, or one of {', '.join(KNOWN)}.")
    place = Path(spec)
    with explained(place, "read"):
        if place.is_dir() or (place.suffix == ".npz" and place.is_file()):
            return None
        if place.exists():
            raise UsageError(f"{place} is neither a folder of pictures nor an .npz file.")
    if place.suffix == ".npz" or len(place.parts) > 1:
        raise DataError(f"{place} does not exist. Give an existing folder or .npz file, or one of {', '.join(KNOWN)}.")
    raise UsageError(f"There is no data set {str(spec)!r}, nor a folder of that name. {nearest(name, list(KNOWN))}")


def present(name: str) -> bool:
    """Whether a known data set can be read at once, without a root and without the network."""
    if name == "cifar10":  # which would be fetched
        return bool(cached_copies(name))
    try:
        KNOWN[name].find(None)
    except AluError:
        return False
    return True
