"""Make what a user would already have: 224-pixel pictures (one sub-folder per class) and a classifier of transformers.

Usage: python prepare.py [--n 800] [--epochs 6] [--out FOLDER]
Then:  alu fit --classifier hf:model --data pictures --out defense --purifier pca --false-alarm 0.01
       alu predict defense pictures/star

The classifier is a small ResNet that is built from a configuration and trained here in a few minutes, so that nothing
has to be fetched. With a model of the hub it is the same: `hf:` and its name, such as hf:microsoft/resnet-18, or a
folder that its `save_pretrained` wrote, model and image processor both. The pictures must then be of the model's
classes, in folders with their names.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFilter
from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessor

from alu import data
from alu.models import check_normalisation, from_huggingface

HERE = Path(__file__).parent
SIZE = 224
SHAPES = ("star", "circle", "square", "triangle")
"""In the order of the network's answers; folders are read in alphabetical order, and matched by name."""


def corners(shape: str, turn: float) -> list[tuple[float, float]]:
    """The corners of a shape of radius 1 around 0; a star's alternate between two radii."""
    count = {"star": 10, "square": 4, "triangle": 3}[shape]
    radii = [0.45 if shape == "star" and number % 2 else 1.0 for number in range(count)]
    angles = [turn + 2 * math.pi * number / count for number in range(count)]
    return [(radius * math.cos(angle), radius * math.sin(angle)) for radius, angle in zip(radii, angles, strict=True)]


def picture(shape: str, draws: np.random.Generator) -> Image.Image:
    """One shape in a random colour, place, size and turn, on a background of soft colours, with a little noise."""
    coarse = Image.fromarray(draws.integers(40, 216, (6, 6, 3), dtype=np.uint8))
    canvas = coarse.resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    (x, y), radius = draws.uniform(75, SIZE - 75, 2), draws.uniform(40, 70)
    colour = tuple(int(value) for value in draws.choice([10, 245], 3))
    if shape == "circle":
        ImageDraw.Draw(canvas).ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)
    else:
        points = [(x + radius * a, y + radius * b) for a, b in corners(shape, draws.uniform(0, 2 * math.pi))]
        ImageDraw.Draw(canvas).polygon(points, fill=colour)
    smooth = np.asarray(canvas.filter(ImageFilter.GaussianBlur(1)), dtype=np.float64)
    return Image.fromarray((smooth + draws.normal(0, 4, smooth.shape)).clip(0, 255).astype(np.uint8))


def write_pictures(n: int, out: Path) -> None:
    """`n` pictures as PNG files, out/CLASS/NUMBER.png."""
    for number in range(n):
        shape = SHAPES[number % len(SHAPES)]
        (out / shape).mkdir(parents=True, exist_ok=True)
        picture(shape, np.random.default_rng((7, number))).save(out / shape / f"{number:05d}.png")


def train(pictures: Path, epochs: int, batch: int = 16) -> tuple[ResNetForImageClassification, ViTImageProcessor]:
    """A small ResNet, trained the plain way on what its own processor makes of the pictures."""
    names = dict(enumerate(SHAPES))
    torch.manual_seed(0)
    config = ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 64, 96], depths=[1, 1, 1, 1], layer_type="basic",
        id2label=names, label2id={name: label for label, name in names.items()},
    )  # fmt: skip
    model = ResNetForImageClassification(config)
    processor = ViTImageProcessor(
        size={"height": SIZE, "width": SIZE}, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]
    )
    # alu cuts a folder into parts by itself; the classifier must only see the training part.
    part = data.folder(pictures, "train").relabelled(SHAPES, "the network")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    steps = epochs * (len(part) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(part))
        for start in range(0, len(part) - batch + 1, batch):
            chosen = order[start : start + batch]
            values = processor(images=list(part.pixels[chosen].numpy()), return_tensors="pt", do_resize=False)
            loss = model(**values, labels=part.labels[chosen]).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval(), processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=800)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    write_pictures(options.n, options.out / "pictures")
    model, processor = train(options.out / "pictures", options.epochs)
    for part in (model, processor):
        part.save_pretrained(options.out / "model")
    print(f"{options.n} pictures in {options.out / 'pictures'}, the classifier in {options.out / 'model'}")
    classifier = from_huggingface(options.out / "model")
    test = data.folder(options.out / "pictures", "test").relabelled(classifier.classes, "the network")
    print(check_normalisation(classifier, test.images, test.labels, "On the test part it"))


if __name__ == "__main__":
    main()
