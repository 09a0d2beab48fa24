"""Images in [0, 1] with labels, in seeded, disjoint splits."""

from alu.data.catalog import open_dataset
from alu.data.cifar import cifar10, cifar100, sample
from alu.data.dataset import Dataset, as_images
from alu.data.fashion_mnist import fashion_mnist
from alu.data.own import folder, npz
from alu.data.pictures import find_pictures, read_picture
from alu.data.tiny_imagenet import tiny_imagenet

__all__ = [
    "Dataset",
    "as_images",
    "cifar10",
    "cifar100",
    "fashion_mnist",
    "find_pictures",
    "folder",
    "npz",
    "open_dataset",
    "read_picture",
    "sample",
    "tiny_imagenet",
]
