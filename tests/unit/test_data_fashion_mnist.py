"""Fashion-MNIST's idx files, packed or not, whole or damaged."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

import alu.data
from alu.data.fashion_mnist import DEBIAN
from alu.errors import DataError


def write_idx(root: Path, count: int = 40, packed: bool = True) -> None:
    for prefix in ("train", "t10k"):
        pixels = np.random.default_rng(len(prefix)).integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for name, array in ((f"{prefix}-images-idx3-ubyte", pixels), (f"{prefix}-labels-idx1-ubyte", labels)):
            content = struct.pack(f">{array.ndim + 1}I", 0x0800 + array.ndim, *array.shape) + array.tobytes()
            path = root / (name + ".gz" * packed)
            path.write_bytes(gzip.compress(content) if packed else content)


@pytest.mark.parametrize("packed", [True, False])
def test_fashion_mnist_idx_files(packed: bool, tmp_path: Path) -> None:
    write_idx(tmp_path, packed=packed)
    test = alu.data.fashion_mnist("test", root=tmp_path)
    assert test.shape == (1, 28, 28)
    assert test.labels.tolist() == [i % 10 for i in range(40)]
    assert [len(alu.data.fashion_mnist(s, root=tmp_path)) for s in ("train", "calibration")] == [36, 2]


def test_damaged_or_missing_idx_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Fashion-MNIST is not in .* dataset-fashion-mnist"):
        alu.data.fashion_mnist("test", root=tmp_path)
    write_idx(tmp_path, packed=False)
    images = tmp_path / "t10k-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(DataError, match="or is truncated"):
        alu.data.fashion_mnist("test", root=tmp_path)
    write_idx(tmp_path)
    images.unlink()
    packed = tmp_path / "t10k-images-idx3-ubyte.gz"
    packed.write_bytes(packed.read_bytes()[:-200])
    with pytest.raises(DataError, match="damaged or truncated"):
        alu.data.fashion_mnist("test", root=tmp_path)


def test_debians_package_is_found_without_root() -> None:
    if not DEBIAN.is_dir():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    test = alu.data.fashion_mnist("test")
    assert test.labels.bincount().tolist() == [1000] * 10
    assert test.classes[int(test.labels[0])] == "ankle boot"
