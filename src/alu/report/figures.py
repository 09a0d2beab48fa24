"""Figures: every number on a page carries its key and its value, so that the page can be read back and checked."""

from __future__ import annotations

from html import escape

from alu.evaluation.printed import eps_text
from alu.stats import Share

NONE = '<span class="none">–</span>'
TOO_FEW = '<span class="few">n too small</span>'
WIDEST = 0.5
"""A 95 % interval that spans more than this says nothing; its figure is left out."""
FEWEST = 12
"""From fewer images the interval of a share may span more than that; whether it does must not decide what is shown."""
COLOURS = {"clean": "#2b5fab", "oblivious": "#c98a1b", "surrogate": "#6b4ea3", "adaptive": "#b3362d"}
"""One colour for clean images and one for each attacker, in every chart."""


def figure(key: str, value: float, text: str) -> str:
    """A number as it is shown, with what it is and its exact value."""
    return f'<span class="figure" data-key="{escape(key)}" data-value="{value!r}">{escape(text)}</span>'


def count(key: str, value: int) -> str:
    """A whole number."""
    return figure(key, value, str(value))


def number(key: str, value: float | None, digits: int = 1) -> str:
    """A number with so many digits behind the point, or a dash."""
    return NONE if value is None else figure(key, value, f"{value:.{digits}f}")


def percent(key: str, found: Share | None) -> str:
    """A share in percent, without its interval, or a dash."""
    return NONE if found is None or found.n == 0 else figure(key, found.value, f"{100 * found.value:.1f} %")


def share(key: str, found: Share | None, *, least: str = "", n: bool = True) -> str:
    """A share in percent with its 95 % Wilson interval below, and n where no other cell says it; or a dash."""
    if found is None or found.n == 0:
        return NONE
    more = f" n = {count(f'{key}.n', found.n)}" if n else ""
    return f"{least}{percent(key, found)}<small>{interval(key, found)}{more}</small>"


def known(key: str, found: Share | None) -> str:
    """The same, unless there are too few images to say anything."""
    return TOO_FEW if found is not None and 0 < found.n < FEWEST else share(key, found)


def inline(key: str, found: Share) -> str:
    """A share as part of a sentence."""
    return f"{percent(key, found)} {interval(key, found)}"


def interval(key: str, found: Share) -> str:
    """[low, high] in percent."""
    low, high = found.interval
    ends = figure(f"{key}.low", low, f"{100 * low:.1f}"), figure(f"{key}.high", high, f"{100 * high:.1f}")
    return f"[{ends[0]}, {ends[1]}]"


def distance(key: str, value: float | None, norm: str) -> str:
    """A distance: in gray levels for L∞, where that is how eps is written."""
    if value is None:
        return NONE
    return figure(key, value, f"{255 * value:.1f}/255" if norm == "Linf" else f"{value:.3f}")


def eps(key: str, value: float, norm: str) -> str:
    """A budget as the user writes it."""
    return figure(key, value, eps_text(value) if norm == "Linf" else f"{value:g}")
