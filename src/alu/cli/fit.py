"""alu fit: a defence around the user's own classifier and pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alu.cli.data import parse_size
from alu.cli.options import Device, Seed, checked_device
from alu.cli.stages import stages
from alu.errors import StorageError, UsageError

if TYPE_CHECKING:
    from alu.training.fitting import Fitted


def fit(
    classifier: Annotated[
        str, typer.Option(help="Your classifier: module:function that returns it, or a bundled name.")
    ],
    data: Annotated[
        str, typer.Option(help="Clean images: a folder (one sub-folder per class), .npz, or a known name.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the defence to.")],
    purifier: Annotated[
        str, typer.Option(help="vae (trains one), pca, blur, median, jpeg, a bundled VAE, or a .safetensors file.")
    ] = "vae",
    steps: Annotated[
        int, typer.Option(help="Latent steps per image; more is slower and keeps more clean answers.")
    ] = 20,
    rule: Annotated[str, typer.Option(help="alu, purified or abstain.")] = "alu",
    reference: Annotated[
        str, typer.Option(help="What the logits are compared with: input or reconstruction.")
    ] = "input",
    false_alarm: Annotated[float, typer.Option(help="Share of clean images that may be flagged.")] = 0.005,
    size: Annotated[str | None, typer.Option(help="Scale a folder's pictures: 32, or height x width as 32x48.")] = None,
    root: Annotated[Path | None, typer.Option(help="Where a known data set's files are.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of the VAE's training; about 2,000 steps by default.")
    ] = None,
    max_minutes: Annotated[float, typer.Option(help="Refuse a training that would take longer than this.")] = 120.0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep the VAE's training here, and go on from here if it was interrupted.")
    ] = None,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Build a defence around your classifier: train or take a purifier, calibrate on held-out images, save."""
    from alu.saving import is_defense

    checked_device(device)
    if out.exists() and not (out.is_dir() and (is_defense(out) or not any(out.iterdir()))):
        # Said before an hour of work, not after it.
        raise StorageError(f"{out} is already there and was not written by alu. Choose another --out.")
    fitted, factory = _fitted(
        classifier, data, size, root,
        dict(
            purifier=purifier, steps=steps, rule=rule, reference=reference, false_alarm=false_alarm, epochs=epochs,
            max_minutes=max_minutes, seed=seed, device=device, checkpoint=checkpoint,
        ),
    )  # fmt: skip
    fitted.defense.save(out, factory=factory)
    _print(fitted, out)


def _fitted(
    classifier: str, data: str, size: str | None, root: Path | None, settings: dict[str, object]
) -> tuple[Fitted, str | None]:
    from alu import models
    from alu.data import open_dataset
    from alu.decision import find_rule
    from alu.saving import call_factory
    from alu.training.fitting import Plan
    from alu.training.fitting import fit as fit_defense

    plan = Plan(**settings)  # type: ignore[arg-type]
    find_rule(plan.rule)
    if plan.reference == "reconstruction" and plan.purifier in ("pca", "blur", "median", "jpeg"):
        raise UsageError(
            f"--reference reconstruction needs a VAE; {plan.purifier} has no reconstruction to compare with."
        )
    factory = classifier if ":" in classifier else None
    made = call_factory(classifier) if factory else models.load(classifier)
    if hasattr(made, "to"):
        made = made.to(plan.device)
    shape = parse_size(size)
    names = ("train", "calibration", "validation", "test")
    parts = {name: open_dataset(data, name, root=root, size=shape) for name in names}
    with stages() as watch:
        return fit_defense(made, parts, plan, watch), factory


def _print(fitted: Fitted, out: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("on held-out clean images", "share [95 % interval]", "n")
    table.add_row("classifier alone is right", str(fitted.bare), str(fitted.bare.n))
    table.add_row("defence is right", str(fitted.defended), str(fitted.defended.n))
    table.add_row("false alarms", str(fitted.false_alarms), str(fitted.false_alarms.n))
    console = Console()
    console.print(table)
    console.print(f"Saved to {out} after {fitted.seconds:.0f} s. Next: alu predict {out} PICTURES", soft_wrap=True)
