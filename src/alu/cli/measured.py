"""What a fitted defence does on held-out images, as a table on the screen."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alu.stats import Share
    from alu.training.fitted import Fitted

WIDE = 135
"""Columns of a screen from which on the table shows an interval behind each share."""


def print_measured(fitted: Fitted) -> None:
    """The table on standard output; what is weak in the defence as warnings on standard error."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    wide = console.width >= WIDE
    table = Table()
    table.add_column("held-out images")
    for title in ("bare", "purified", "deployed", "flagged", "n"):
        table.add_column(title, justify="right", no_wrap=True)

    def shown(share: Share) -> str:
        return str(share) if wide else f"{100 * share.value:.1f} %"

    for row in fitted.rows:
        shares = (row.bare, row.purified, row.deployed, row.flagged)
        table.add_row(row.images, *map(shown, shares), str(row.bare.n))
    console.print(table)
    note = "bare, purified, deployed: right answers of the classifier alone, after the purifier, and of the defence."
    console.print(f"{note} {_intervals(fitted, wide)}", soft_wrap=True, highlight=False)
    if fitted.not_attacked:
        console.print(fitted.not_attacked, soft_wrap=True, highlight=False, markup=False)
    sys.stdout.flush()  # before the warnings that speak of it
    for concern in fitted.concerns():
        sys.stderr.write(f"alu: warning: {concern}\n")


def _intervals(fitted: Fitted, wide: bool) -> str:
    """How far a share may be off, where there is no room to say it of each."""
    from alu.stats import Share

    if wide:
        return "In brackets the 95 % interval."
    sizes = sorted({row.bare.n for row in fitted.rows}, reverse=True)
    ends = {n: Share(n // 2, n).interval for n in sizes}
    reach = ", ".join(f"± {50 * (high - low):.1f} at n = {n}" for n, (low, high) in ends.items())
    return f"95 % intervals are at most (in points) {reach}."
