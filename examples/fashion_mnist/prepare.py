"""Make what a user would already have: a folder of pictures (one sub-folder per class) and a trained classifier.

Usage: python prepare.py [--root FOLDER_WITH_IDX_FILES] [--n 20000]
Fashion-MNIST is Debian's package dataset-fashion-mnist; --root takes any folder with its four idx files.
"""

import argparse
from pathlib import Path

from PIL import Image
from safetensors.torch import save_file
from small_cnn import WEIGHTS, train

from alu import data

HERE = Path(__file__).parent


def write_pictures(root: Path | None, n: int, out: Path) -> None:
    """`n` training pictures as PNG files, out/CLASS/NUMBER.png."""
    part = data.fashion_mnist("train", n=n, root=root)
    for name in part.classes:
        (out / name.replace("/", "-")).mkdir(parents=True, exist_ok=True)
    for number, (pixels, label) in enumerate(zip(part.pixels, part.labels.tolist(), strict=True)):
        folder = out / part.classes[label].replace("/", "-")
        Image.fromarray(pixels[0].numpy()).save(folder / f"{number:05d}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--n", type=int, default=20_000)
    options = parser.parse_args()
    write_pictures(options.root, options.n, HERE / "pictures")
    # alu cuts a folder into parts by itself; the classifier must only see the training part.
    part = data.folder(HERE / "pictures", "train")
    model = train(part.images, part.labels)
    save_file(model.state_dict(), WEIGHTS)
    test = data.folder(HERE / "pictures", "test")
    right = (model(test.images).argmax(1) == test.labels).float().mean()
    print(f"{options.n} pictures in {HERE / 'pictures'}")
    print(f"The classifier is right on {100 * float(right):.1f} % of their test part.")


if __name__ == "__main__":
    main()
