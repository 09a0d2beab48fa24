"""alu demo: the main job on bundled models and real images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from alu.cli.options import Device, Seed, checked_device
from alu.cli.running import hold, is_page, print_table, refuse_file, stages
from alu.errors import StorageError


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the page and its numbers.")] = Path("demo"),
    n: Annotated[int, typer.Option(help="How many of the 500 bundled test images to use.", min=3, max=500)] = 200,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Attack bundled classifiers on real images, defend them, and show where that works and where it does not."""
    from dataclasses import asdict

    from alu.demo import run_demo
    from alu.report.demo import write_page
    from alu.storage import write_json

    refuse_file(out / "index.html", "a page", ours=is_page)
    refuse_file(out / "result.json", "the numbers of a demo", ours=_is_demo)
    hold(out)
    checked_device(device)
    with stages() as watch:
        result = asdict(run_demo(n, seed, device, watch))
    write_json(out / "result.json", result)
    write_page(result, out / "index.html")
    _print(result)
    typer.echo(f"Page: {(out / 'index.html').resolve().as_uri()}")
    typer.echo("To try pictures and attacks yourself: alu serve demo --playground, then open http://127.0.0.1:8000")


def _is_demo(path: Path) -> bool:
    from alu.storage import read_json

    try:
        return {"setting", "rows"} <= set(read_json(path))
    except (StorageError, TypeError):
        return False


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console

    from alu.report.demo import COLUMNS, MEANING, proves, terminal_cell, terminal_title, verdict

    title = f"Correct answers in % [95 % interval], CIFAR-10, n = {result['setting']['n']}, L∞ 8/255"
    rows = ((terminal_title(row), *(terminal_cell(row, column) for column in COLUMNS)) for row in result["rows"])
    narrow = (name.replace(" ", "\n") for name in COLUMNS.values())  # leaves room for the names of rows
    print_table(("", *narrow), rows, title, lines=True)
    console = Console()
    console.print(
        "PGD-20 does not know the defence: ALU recovers the true label. The same attack called with a wrong label (a "
        "decoy) makes ALU answer that label. The next attack differentiates through the VAE.",
    )
    proof = " The certificate's figure is a proof, for changes measured in L2." if proves(result) else ""
    console.print(f"{MEANING}{proof}")
    console.print(verdict(result), style="bold", highlight=False)
