"""Small charts as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

COLOURS = {"clean": "#2b5fab", "pgd": "#b3362d", "decoy": "#c98a1b", "surrogate": "#6b4ea3"}


def bars(classes: Sequence[str], before: Sequence[float], after: Sequence[float], mark: int) -> str:
    """Logits before (grey) and after (blue) purification for each class; the true class is set in bold."""
    width, row, left = 340, 15, 86
    low, high = min(0.0, *before, *after), max(0.0, *before, *after)
    scale = (width - left - 10) / ((high - low) or 1.0)
    zero = left - low * scale
    parts = [f'<svg viewBox="0 0 {width} {row * len(classes) + 4}" role="img" aria-label="logits before and after">']
    for index, name in enumerate(classes):
        top = 2 + index * row
        weight = ' font-weight="700"' if index == mark else ""
        parts.append(f'<text x="{left - 6}" y="{top + 10}" text-anchor="end"{weight}>{escape(name)}</text>')
        for offset, values, colour in ((1, before, "#b9bfca"), (7, after, "#2b5fab")):
            length = values[index] * scale
            x = zero + min(0.0, length)
            parts.append(f'<rect x="{x:.1f}" y="{top + offset}" width="{abs(length):.1f}" height="5" fill="{colour}"/>')
    parts.append(f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{row * len(classes) + 2}" stroke="#99a"/></svg>')
    return "".join(parts)


def histogram(groups: dict[str, Sequence[float]], threshold: float, names: dict[str, str]) -> str:
    """Shares of scores in bins, one outline per group, with the threshold as a line."""
    width, height, bottom, bins = 720, 220, 34, 48
    top = max(max(values) for values in groups.values()) or 1.0
    counts = {
        name: [sum(1 for v in values if min(int(bins * v / top), bins - 1) == b) / len(values) for b in range(bins)]
        for name, values in groups.items()
    }
    peak = max(max(shares) for shares in counts.values())
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="histogram of the suspicion score">']
    step = width / bins
    for name, shares in counts.items():
        points = [f"0,{height - bottom}"]
        for b, share in enumerate(shares):
            y = height - bottom - share / peak * (height - bottom - 22)
            points += [f"{b * step:.1f},{y:.1f}", f"{(b + 1) * step:.1f},{y:.1f}"]
        points.append(f"{width},{height - bottom}")
        colour = COLOURS.get(name, "#333")
        parts.append(
            f'<polygon points="{" ".join(points)}" fill="{colour}" fill-opacity=".16" stroke="{colour}"'
            ' stroke-width="1.4"/>'
        )
    x = threshold / top * width
    parts.append(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="8" y2="{height - bottom}" stroke="#1c2430" stroke-dasharray="4 3"/>'
    )
    parts.append(f'<text x="{x + 5:.1f}" y="16">flagged above {threshold:.1f}</text>')
    for tick in range(5):
        value = top * tick / 4
        anchor = ("start", "middle", "middle", "middle", "end")[tick]
        place = f'x="{width * tick / 4:.0f}" y="{height - bottom + 14}"'
        parts.append(f'<text {place} text-anchor="{anchor}">{value:.0f}</text>')
    for index, name in enumerate(counts):
        left = 10 + 178 * index
        parts.append(f'<rect x="{left}" y="{height - 13}" width="10" height="10" fill="{COLOURS.get(name, "#333")}"/>')
        parts.append(f'<text x="{left + 15}" y="{height - 4}">{escape(names.get(name, name))}</text>')
    return "".join(parts) + "</svg>"
