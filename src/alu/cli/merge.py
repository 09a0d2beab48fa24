"""alu merge: the shards of one evaluation become one result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alu.cli.places import is_result, refuse_file


def merge(
    shards: Annotated[list[Path], typer.Argument(help="The result of every shard, in any order.")],
    out: Annotated[Path, typer.Option(help="The whole result.")],
) -> None:
    """Join the shards of one evaluation into the result that one run would have given."""
    from alu.evaluation.merging import merge as joined
    from alu.evaluation.result import Result

    # Results are raw outcomes that cost hours; a slip of the keyboard must not replace one.
    refuse_file(out, "a result", shards, is_result)
    result = joined([Result.load(path) for path in shards])
    result.save(out)
    typer.echo(str(result))
    typer.echo(f"Result: {out.resolve().as_uri()}")
    if not result.complete:
        raise typer.Exit(3)
