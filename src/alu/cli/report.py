"""alu report: one page from one or several results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alu.cli.places import is_page, refuse_file


def report(
    results: Annotated[list[Path], typer.Argument(help="Results of alu evaluate or alu merge.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
) -> None:
    """Make one self-contained page of results: tables, charts, images, diagnostics; several are compared."""
    from alu.evaluation.result import Result
    from alu.report import write

    refuse_file(out, "a page", results, is_page)
    write([Result.load(path) for path in results], out)
    typer.echo(f"Page: {out.resolve().as_uri()}")
