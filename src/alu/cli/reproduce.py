"""alu reproduce: measure a table or a figure of the paper again, beside the paper's own numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from alu.cli.options import Device, Seed, checked_device
from alu.cli.stages import stages
from alu.errors import AluError


class InterruptedExperimentError(AluError):
    """The user pressed Ctrl-C."""

    exit_code = 130


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, all of them (all), or their names (list).")],
    quick: Annotated[bool, typer.Option("--quick", help="A first look: few images, five minutes at most.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results (JSON) and the page; results, or results/quick.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Where the files of CIFAR-100 and tiny-ImageNet are; table2 uses them.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what is already there.")] = False,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Measure a table or figure of the paper again and write it down, with a page that shows all of them.

    What a run has measured stays: an interrupted one goes on where it was. Ends with 3 if a cell is empty because a
    model has not been trained or a data set is missing.
    """
    from alu.experiments.catalog import EXPERIMENTS, find

    if name == "list":
        for experiment in EXPERIMENTS.values():
            sys.stdout.write(f"{experiment.name:<14} {experiment.title}. {experiment.question}\n")
        return
    chosen = list(EXPERIMENTS.values()) if name == "all" else [find(name)]
    folder = out or Path("results") / ("quick" if quick else "")
    from alu.experiments.running import reproduce as run
    from alu.report.paper.page import write
    from alu.report.paper.results import Results
    from alu.report.paper.said import said

    where, empty = checked_device(device), False
    try:
        for experiment in chosen:
            with stages() as watch:
                result = run(
                    experiment, folder / f"{experiment.name}.json", quick=quick, seed=seed, device=where, root=root,
                    fresh=fresh, watch=watch,
                )  # fmt: skip
            sys.stdout.write(said(Results.open(folder), experiment.name) + "\n")
            empty = empty or not result["complete"]
    except KeyboardInterrupt as error:
        raise InterruptedExperimentError(
            f"Interrupted. What was measured is in {folder}: run the same command again to go on."
        ) from error
    page = write(Results.open(folder), folder / "paper.html")
    sys.stdout.write(f"Results: {folder}. Page: {page.resolve().as_uri()}\n")
    if empty:
        raise typer.Exit(3)
