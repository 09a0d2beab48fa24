"""alu train: run a recipe, resumable at any moment."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from alu.cli.options import Device, Size, checked_device, parse_settings, parse_size
from alu.cli.running import InterruptedCommandError, hold, stages
from alu.errors import UsageError


def train(
    name: Annotated[str | None, typer.Argument(metavar="RECIPE", help="A recipe's name; --list shows them.")] = None,
    list_recipes: Annotated[bool, typer.Option("--list", help="List the recipes and stop.")] = False,
    data: Annotated[
        str | None,
        typer.Option(help="Images of your own for the recipes classifier and vae: a folder, .npz, or a known name."),
    ] = None,
    size: Size = None,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, such as epochs=3.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option(help="Weights to begin with: the folder of another run, or a .safetensors file.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run; runs/RECIPE by default.")] = None,
    root: Annotated[Path | None, typer.Option(help="Where the data set's files are.")] = None,
    every: Annotated[
        float, typer.Option(help="Seconds between checkpoints; one is also saved after each epoch.")
    ] = 180.0,
    device: Device = "cpu",
) -> None:
    """Train a model by a recipe, or a classifier or VAE of your own images: alu train classifier --data FOLDER.

    Ctrl-C saves a checkpoint; the same command then goes on exactly where it stopped. The run's folder holds the model,
    a checkpoint and the curve. Under torchrun it trains in several processes.
    """
    if list_recipes:
        _print_recipes()
        return
    if name is None:
        own = f" On your own images: alu train classifier --data {data}" if data else ""
        raise UsageError(f"alu train needs the name of a recipe. See: alu train --list.{own}")
    checked_device(device)
    if not every >= 0:
        raise UsageError(f"--every is a number of seconds, 0 for a checkpoint after every step; it is {every:g}.")
    from alu.training.loop import train as run_training
    from alu.training.recipes import recipe

    folder = out or Path("runs") / name
    made = recipe(name)
    changes = parse_settings(change or [], "epochs=3")
    first = os.environ.get("RANK", "0") == "0"
    if first:
        hold(folder)
    run = made.run(folder, device, root, data, parse_size(size), start, **changes)
    run.every = every
    try:
        with stages(shown=first) as watch:
            figures = run_training(run, lambda done, total, _: watch(f"Training {name}", done, total))
    except KeyboardInterrupt as error:
        raise InterruptedCommandError(f"Interrupted. {_kept(folder)}") from error
    if first:
        path = made.save(run, shlex.join(["alu", *sys.argv[1:]]), figures)
        shown = ", ".join(f"{key.replace('_', ' ')} {value:.4f}" for key, value in figures.items())
        typer.echo(f"{name}, held out: {shown}. Saved as {path}; alu.models.load_file opens it.")


def _kept(folder: Path) -> str:
    """What is left of an interrupted training, as a sentence."""
    from alu.training.checkpoint import progress_of

    checkpoint = folder / "checkpoint.safetensors"
    if not checkpoint.exists():
        return f"No checkpoint had been saved in {folder} yet."
    step = progress_of(checkpoint).step
    return f"A checkpoint after step {step:,} is in {folder}: run the same command again to resume."


def _print_recipes() -> None:
    from rich.console import Console
    from rich.table import Table

    from alu.training.recipes import RECIPES

    table = Table("recipe", "what it trains")
    for name, recipe in RECIPES.items():
        table.add_row(name, recipe.about)
    Console().print(table)
