"""alu report: one page from one or several results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alu.errors import UsageError


def report(
    results: Annotated[list[Path], typer.Argument(help="Results of alu evaluate or alu merge.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
) -> None:
    """Make one self-contained page of results: tables, charts, images, diagnostics; several are compared."""
    from alu.evaluation.result import Result
    from alu.report import write

    refuse_own_input(out, results)
    write([Result.load(path) for path in results], out)
    typer.echo(f"Page: {out.resolve().as_uri()}")


def refuse_own_input(out: Path, read: list[Path]) -> None:
    """Results are raw outcomes that cost hours; a slip of the keyboard must not replace one."""
    for path in read:
        if out.resolve() == path.resolve():
            raise UsageError(f"--out {out} is one of the files to read. Choose another --out.")
