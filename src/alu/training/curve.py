"""A run's curve as a picture: curve.jsonl -> curve.svg, one small chart for each figure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

from alu.storage import explained, replacing

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 420, 170, 62, 26, 22
COLOURS = {"training": "#2b5fab", "held out": "#b3362d"}
Points = list[tuple[float, float]]


def draw_curve(source: Path, target: Path) -> None:
    """Write the picture of a curve; a figure that is both trained and held out shares one chart."""
    with explained(source, "read"):
        rows = []
        for line in source.read_text().splitlines():
            with suppress(json.JSONDecodeError):  # the last line may have been cut short
                rows.append(json.loads(line))
    with replacing(target) as temporary:
        temporary.write_text(svg(series(rows)), encoding="utf-8")


def series(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, Points]]:
    """Figure -> "training" or "held out" -> points (step, value), in the order in which figures first appear."""
    found: dict[str, dict[str, Points]] = {}
    for row in rows:
        for name, value in row.items():
            if name in ("step", "epoch") or not isinstance(value, int | float) or not math.isfinite(value):
                continue
            kind = "held out" if name.startswith("held_out_") else "training"
            figure = name.removeprefix("held_out_")
            found.setdefault(figure, {}).setdefault(kind, []).append((row["step"], value))
    return found


def svg(figures: dict[str, dict[str, Points]]) -> str:
    """All charts, two in a row."""
    rows = math.ceil(len(figures) / 2)
    size = f'width="{2 * WIDTH}" height="{rows * HEIGHT}" viewBox="0 0 {2 * WIDTH} {rows * HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, (name, lines) in enumerate(figures.items()):
        parts.append(f'<g transform="translate({number % 2 * WIDTH} {number // 2 * HEIGHT})">{chart(name, lines)}</g>')
    return "".join(parts) + "</svg>\n"


def chart(name: str, lines: dict[str, Points]) -> str:
    """One figure over the steps."""
    steps = [step for points in lines.values() for step, _ in points]
    values = [value for points in lines.values() for _, value in points]
    last, low, high = max(*steps, 1), min(values), max(values)
    spread = (high - low) or abs(high) or 1.0
    inner_width, inner_height = WIDTH - LEFT - 16, HEIGHT - TOP - BOTTOM

    def place(step: float, value: float) -> str:
        return f"{LEFT + step / last * inner_width:.1f},{TOP + (high - value) / spread * inner_height:.1f}"

    parts = [f'<text x="{LEFT}" y="16" font-weight="700" fill="#1c2430">{escape(name.replace("_", " "))}</text>']
    for share in (0.0, 0.5, 1.0):
        y = TOP + share * inner_height
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 16}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dde1e8"/>')
        label = f"{high - share * spread:.4g}"
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#667">{label}</text>')
    parts.append(f'<text x="{WIDTH - 16}" y="{HEIGHT - 6}" text-anchor="end" fill="#667">step {last}</text>')
    for number, (kind, points) in enumerate(lines.items()):
        colour = COLOURS[kind]
        at = [place(step, value) for step, value in points]
        parts.append(f'<polyline points="{" ".join(at)}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if len(points) <= 60:  # few points are seen as points, many as a line
            parts += ['<circle cx="{}" cy="{}" r="2" fill="{}"/>'.format(*spot.split(","), colour) for spot in at]
        parts.append(f'<text x="{WIDTH - 16 - 60 * number}" y="16" text-anchor="end" fill="{colour}">{kind}</text>')
    return "".join(parts)
