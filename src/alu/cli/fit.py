"""alu fit: a defence around the user's own classifier and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alu.cli.data import parse_size
from alu.cli.options import Device, Seed, checked_device
from alu.cli.places import refuse_unwritable
from alu.cli.stages import stages
from alu.errors import AluError, StorageError, UsageError, nearest

if TYPE_CHECKING:
    from alu.training.fitting import Fitted


class InterruptedFitError(AluError):
    """The user pressed Ctrl-C."""

    exit_code = 130


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
        int, typer.Option(help="A VAE's latent steps per image; more is slower and keeps more clean answers.")
    ] = 20,
    detector: Annotated[
        str, typer.Option(help="peak (largest logit change) or shift (sum of the changes, the paper's).")
    ] = "peak",
    rule: Annotated[str, typer.Option(help="What to answer: alu, purified or abstain.")] = "alu",
    reference: Annotated[
        str, typer.Option(help="What the logits are compared with: input or reconstruction.")
    ] = "input",
    false_alarm: Annotated[float, typer.Option(help="Share of clean images that may be flagged.")] = 0.005,
    size: Annotated[str | None, typer.Option(help="Scale a folder's pictures: 32, or height x width as 32x48.")] = None,
    root: Annotated[Path | None, typer.Option(help="Where a known data set's files are.")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of the VAE's training; about 2,500 steps by default.")
    ] = None,
    max_minutes: Annotated[float, typer.Option(help="Refuse a training that would take longer than this.")] = 120.0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep the VAE's training here, and go on from here if it was interrupted.")
    ] = None,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Build a defence around your classifier: train or take a purifier, calibrate on held-out images, save.

    Of your own pictures 70 % train the purifier, 15 % calibrate, 5 % validate and 10 % check the result.
    """
    try:
        _refuse_places(out, data, checkpoint)
        checked_device(device)
        plan = dict(
            purifier=purifier, steps=steps, detector=detector, rule=rule, reference=reference, false_alarm=false_alarm,
            epochs=epochs, max_minutes=max_minutes, seed=seed, device=device, checkpoint=checkpoint,
        )  # fmt: skip
        fitted = _fitted(classifier, data, size, root, plan)
        factory = classifier if ":" in classifier else None
        fitted.defense.save(out, factory=factory)
    except KeyboardInterrupt as error:
        kept = checkpoint is not None and (checkpoint / "checkpoint.safetensors").exists()
        again = f"The training up to the last checkpoint is in {checkpoint}: run the command again to go on."
        raise InterruptedFitError(f"Interrupted. {out} was not written. {again if kept else ''}".rstrip()) from error
    _print(fitted, out, factory)


def _refuse_places(out: Path, data: str, checkpoint: Path | None) -> None:
    """Say before an hour of work, not after it, that its result could not be written."""
    from alu.saving import is_defense

    if out.exists() and not (out.is_dir() and (is_defense(out) or not any(out.iterdir()))):
        raise StorageError(f"{out} is already there and was not written by alu. Choose another --out.")
    refuse_unwritable(out)
    if Path(data).is_dir() and Path(data).resolve() in out.resolve().parents:
        raise UsageError(
            f"--out {out} lies in --data {data}, where it would be taken for a class. Choose another --out."
        )
    if checkpoint is not None:
        place = checkpoint.absolute()
        if out.absolute() in (place, *place.parents):
            raise UsageError(
                f"--checkpoint {checkpoint} lies in --out {out}, which must be empty. Choose another folder."
            )


def _fitted(classifier: str, data: str, size: str | None, root: Path | None, settings: dict[str, Any]) -> Fitted:
    from alu.data import open_dataset
    from alu.training.fitting import Plan
    from alu.training.fitting import fit as fit_defense

    plan = Plan(**settings)
    shape = parse_size(size)
    made = _classifier(classifier)
    if hasattr(made, "to"):
        made = made.to(plan.device)
    parts = {name: open_dataset(data, name, root=root, size=shape) for name in plan.parts}
    with stages() as watch:
        return fit_defense(made, parts, plan, watch)


def _classifier(name: str) -> Callable[..., Any]:
    from alu import models
    from alu.imports import call_factory

    if ":" in name:
        return call_factory(name)
    known = models.names("classifier")
    if name not in known:
        raise UsageError(
            f"There is no bundled classifier {name!r}. {nearest(name, known)} "
            "A classifier of your own is named module:function, such as my_module:build."
        )
    return models.load(name)


def _print(fitted: Fitted, out: Path, factory: str | None) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("on held-out clean images", "share [95 % interval]", "n")
    table.add_row("classifier alone is right", str(fitted.bare), str(fitted.bare.n))
    table.add_row("defence is right", str(fitted.defended), str(fitted.defended.n))
    table.add_row("false alarms", str(fitted.false_alarms), str(fitted.false_alarms.n))
    console = Console()
    console.print(table)
    if fitted.defended.interval[1] < fitted.bare.interval[0]:
        console.print(
            "The defence costs clean answers. A longer training (--epochs), more --steps, or --purifier pca may help.",
            soft_wrap=True,
        )
    trust = " --trust" if factory else ""
    console.print(
        f"Saved to {out} after {fitted.seconds:.0f} s. Next: alu predict {out} PICTURES{trust}",
        soft_wrap=True, markup=False, highlight=False,
    )  # fmt: skip
