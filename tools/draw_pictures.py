"""Draw docs/gallery/pictures.png: a few test images clean, attacked and purified, with the answers below them.

python tools/draw_pictures.py [ROOT]
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

import alu

EPS, SEED = 8 / 255, 0
CHOSEN = 6
"""One picture of each of the first classes."""
TILE, GAP, LINE, LEFT = 96, 8, 15, 150
RIGHT, WRONG, INK = "#1a7f4b", "#b3362d", "#1c2430"
"""Correct and wrong answers, and all other words, as on the pages."""
Row = tuple[str, Tensor, list[tuple[str, Tensor]]]
"""Its title, its images, and the answers below them: who answers, and what."""


def rows() -> tuple[list[Row], Tensor, tuple[str, ...]]:
    """Six images that the bundled classifier gets right: as they are, and under two attacks; labels and class names."""
    classifier = alu.models.load("cifar10-standard")
    defense = alu.Defense(classifier, alu.purifiers.LatentVAE("cifar10-vae", steps=20), alu.detectors.LogitShift())
    defense.calibrate(alu.data.sample("calibration").images)
    test = alu.data.sample("test")
    with torch.no_grad():
        right = classifier(test.images).argmax(1) == test.labels
    first = [int((right & (test.labels == label)).nonzero()[0]) for label in range(CHOSEN)]
    images, labels = test.images[first], test.labels[first]
    attack = alu.attacks.PGD(eps=EPS, steps=20, seed=SEED)
    given = {
        "clean": images,
        "PGD-20 by an attacker\nwho does not know\nthe defence": attack(classifier, images, labels),
        "PGD-20 called with\na wrong label, by one\nwho knows it": attack(classifier, images, (labels + 1) % 10),
    }
    shown: list[Row] = []
    for title, seen in given.items():
        decision = defense.decide(seen)
        shown.append((title, seen, [("classifier", decision.pre_logits.argmax(1)), ("defence", decision.label)]))
        shown.append(("purified by the VAE", decision.purified, []))
    return shown, labels, test.classes


def picture() -> Image.Image:
    """All rows below each other."""
    shown, labels, classes = rows()
    heights = [TILE + LINE * len(answers) + GAP for _, _, answers in shown]
    sheet = Image.new("RGB", (LEFT + CHOSEN * (TILE + GAP), sum(heights)), "white")
    draw, font, top = ImageDraw.Draw(sheet), ImageFont.load_default(12), 0
    for (title, images, answers), height in zip(shown, heights, strict=True):
        draw.multiline_text((4, top + 4), title, INK, font)
        for line, (who, _) in enumerate(answers):
            draw.text((LEFT - 8, top + TILE + LINE * line), who, INK, font, anchor="ra")
        for at, image in enumerate(images):
            left = LEFT + at * (TILE + GAP)
            pixels = (255 * image).round().to(torch.uint8).permute(1, 2, 0).numpy()
            sheet.paste(Image.fromarray(pixels).resize((TILE, TILE), Image.Resampling.NEAREST), (left, top))
            for line, (_, answered) in enumerate(answers):
                colour = RIGHT if answered[at] == labels[at] else WRONG
                draw.text((left, top + TILE + LINE * line), classes[int(answered[at])], colour, font)
        top += height
    return sheet


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else ".") / "docs/gallery/pictures.png"
    out.parent.mkdir(parents=True, exist_ok=True)
    picture().quantize(192).save(out, optimize=True)
    sys.stdout.write(f"{out}\n")
