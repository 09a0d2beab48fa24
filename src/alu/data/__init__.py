"""Images in [0, 1] with labels, in seeded, disjoint splits."""

from alu.data.cifar10 import cifar10
from alu.data.dataset import Dataset, as_images

__all__ = ["Dataset", "as_images", "cifar10"]
