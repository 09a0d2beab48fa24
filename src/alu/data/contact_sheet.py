"""A picture that shows a few images of every class."""

from __future__ import annotations

import io

import torch
from PIL import Image, ImageDraw

from alu.data.dataset import Dataset

MARGIN = 2
TEXT_WIDTH = 130
SMALLEST = 48  # pixels on the sheet; smaller images are enlarged by a whole factor


def contact_sheet(dataset: Dataset, per_class: int = 8) -> bytes:
    """A PNG file with one row per class: its name, then its first images."""
    _, height, width = dataset.shape
    factor = max(1, -(-SMALLEST // min(height, width)))
    step_x, step_y = width * factor + MARGIN, height * factor + MARGIN
    present = torch.unique(dataset.labels).tolist()
    sheet = Image.new("RGB", (TEXT_WIDTH + per_class * step_x, len(present) * step_y + MARGIN), "white")
    draw = ImageDraw.Draw(sheet)
    for row, label in enumerate(present):
        top = MARGIN + row * step_y
        draw.text((4, top + step_y // 2 - 6), dataset.classes[label][:20], fill="black")
        for column, position in enumerate((dataset.labels == label).nonzero().flatten()[:per_class].tolist()):
            tile = _tile(dataset, position).resize((width * factor, height * factor), Image.Resampling.NEAREST)
            sheet.paste(tile, (TEXT_WIDTH + column * step_x, top))
    file = io.BytesIO()
    sheet.save(file, "PNG")
    return file.getvalue()


def _tile(dataset: Dataset, position: int) -> Image.Image:
    pixels = dataset.pixels[position]
    if pixels.is_floating_point():
        pixels = (pixels * 255).round().to(torch.uint8)
    rows = pixels.permute(1, 2, 0).contiguous().numpy()
    return Image.fromarray(rows[:, :, 0] if rows.shape[2] == 1 else rows).convert("RGB")
