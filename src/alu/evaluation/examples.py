"""Examples: pictures and logits of one attacked image, as plain values for a page."""

from __future__ import annotations

import base64
import io
from typing import Any

import torch
from torch import Tensor

from alu.decision import Decision


def example(
    attack: str, image: int, clean: Tensor, found: Tensor, label: int, decision: Decision, place: int, eps: float
) -> dict[str, Any]:
    """Pictures (PNG data URIs), logits and the answer of one image; `place` is its place in the decision."""
    score = float(decision.score[place])
    return {
        "attack": attack, "image": image, "true": label, "answer": int(decision.label[place]),
        "flagged": bool(decision.flagged[place]), "score": None if score != score else round(score, 4),  # noqa: PLR0124
        "clean": png(clean), "adversarial": png(found),
        # Gray is no change; black and white are the whole of eps.
        "perturbation": png((found - clean) / max(eps, 1e-9) / 2 + 0.5), "purified": png(decision.purified[place]),
        "before": [round(float(value), 3) for value in decision.pre_logits[place]],
        "after": [round(float(value), 3) for value in decision.post_logits[place]],
    }  # fmt: skip


def png(image: Tensor) -> str:
    """A picture as a data URI; of more than three channels the first three are shown."""
    from PIL import Image

    pixels = (image.detach().cpu().clamp(0, 1) * 255).round().to(torch.uint8)[:3].permute(1, 2, 0).numpy()
    picture = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] < 3 else pixels)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
