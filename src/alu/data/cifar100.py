"""CIFAR-100 with its fine labels, from the pickled or the binary layout, whole or a subset."""

from __future__ import annotations

from pathlib import Path

from alu.data.archives import locate
from alu.data.cifar_layout import CIFAR100, read_cifar
from alu.data.dataset import Dataset
from alu.data.stored import Half, Stored, split_of, stored
from alu.errors import DataError

# fmt: off
CLASSES = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
    "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup",
    "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house",
    "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard", "lobster", "man",
    "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine",
    "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew",
    "skunk", "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower",
    "sweet_pepper", "table", "tank", "telephone", "television", "tiger", "tractor", "train", "trout",
    "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman", "worm",
)
# fmt: on
ARCHIVES = ("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz", "cifar-100-*.tar*")
MARKERS = ("fine_label_names.txt", "file.txt~", "train.bin", "meta")


def cifar100(split: str, n: int | None = None, seed: int = 0, root: str | Path | None = None) -> Dataset:
    """CIFAR-100 images [N, 3, 32, 32] with 100 fine labels.

    Calibration and validation get 5 % of the training images each. `root` is an official archive or a folder
    with it or its content; once read, the cached copy is used without it.
    """
    found = find_cifar100(root)
    return split_of("cifar100", split, found.half, found.classes).draw(n, seed)


def find_cifar100(root: str | Path | None = None) -> Stored:
    """The cached copy of the data set in `root`, or the only copy there is."""
    place = None if root is None else locate(Path(root), CIFAR100.title, ARCHIVES, MARKERS)
    return stored("cifar100", CIFAR100.title, place, _build)


def _build(place: Path) -> tuple[dict[str, Half], tuple[str, ...]]:
    halves, files = read_cifar(place, CIFAR100)
    if "fine_label_names.txt" not in files:
        return halves, CLASSES
    names = tuple(files["fine_label_names.txt"].decode("utf-8", "replace").split())
    if len(names) != CIFAR100.names:
        raise DataError(f"fine_label_names.txt in {place} has {len(names)} names; CIFAR-100 has 100. Get a fresh copy.")
    return halves, names
