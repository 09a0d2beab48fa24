"""alu reproduce: measure a table or a figure of the paper again, beside the paper's own numbers."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

import typer

from alu.cli.options import Address, Device, Engine, Seed, WorkerCount, checked_device, chosen_workers
from alu.cli.running import InterruptedCommandError, hold, stages
from alu.errors import UsageError


def reproduce(
    name: Annotated[str, typer.Argument(help="An experiment, all of them (all), or their names (list).")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A first look: few images, five minutes an experiment at most.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results (JSON) and the page; results, or results/quick.")
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="Where the files of CIFAR-100 and tiny-ImageNet are; table2 uses them.")
    ] = None,
    only: Annotated[
        str, typer.Option(help="Only cells whose name matches, such as 'cifar10-at/*'; their names are in the JSON.")
    ] = "*",
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what is already there.")] = False,
    seed: Seed = 0,
    device: Device = "cpu",
    engine: Engine = "",
    address: Address = None,
    workers: WorkerCount = None,
) -> None:
    """Measure a table or figure of the paper again and write it down, with a page that shows all of them.

    Cells that are already there are kept, also those that come with a checkout, so an interrupted run resumes where it
    was. To measure everything yourself choose another --out. The exit code is 3 if a cell is empty because a model has
    not been trained or a data set is missing.
    """
    from alu.paper import EXPERIMENTS, find

    if name == "list":
        for experiment in EXPERIMENTS.values():
            sys.stdout.write(f"{experiment.name:<14} {experiment.title}. {experiment.question}\n")
        return
    chosen = list(EXPERIMENTS.values()) if name == "all" else [find(name)]
    if name == "all" and only != "*":
        raise UsageError("--only chooses among the cells of one experiment; it was given with all. Name one.")
    folder = out or Path("results") / ("quick" if quick else "")
    hold(folder)
    from alu.paper.page import html
    from alu.paper.running import reproduce as measure_again
    from alu.paper.store import Results
    from alu.report import page

    where, empty = checked_device(device), False
    pool = chosen_workers(engine, address, workers, device)
    try:
        for experiment in chosen:
            before = Results.open(folder).experiments.get(experiment.name, {}) if folder.is_dir() and not fresh else {}
            with stages() as watch:
                measured = measure_again(
                    experiment.name, quick=quick, out=folder, only=only, fresh=fresh, seed=seed, device=where,
                    root=root, workers=pool, watch=watch,
                )  # fmt: skip
            sys.stdout.write(f"{measured}\n")
            cells = measured.results.experiments[experiment.name]["cells"]
            _say_kept(before.get("cells", {}), cells, folder)
            empty = empty or any("absent" in cell for key, cell in cells.items() if fnmatchcase(key, only))
    except KeyboardInterrupt as error:
        raise InterruptedCommandError(
            f"Interrupted. What was measured is in {folder}: run the same command again to resume."
        ) from error
    path = folder / "paper.html"
    page.write(path, html(Results.open(folder)))
    sys.stdout.write(f"Results: {folder}. Page: {path.resolve().as_uri()}\n")
    if empty:
        raise typer.Exit(3)


def _say_kept(before: dict[str, Any], cells: dict[str, Any], folder: Path) -> None:
    """Say how many cells were there already: a reader must not take them for measured just now."""
    kept = sum("found" in record and before.get(key) == record for key, record in cells.items())
    if kept:
        sys.stderr.write(
            f"alu: {kept} of {len(cells)} cells were in {folder} already and were not measured again; "
            "use --fresh or another --out to do so.\n"
        )
