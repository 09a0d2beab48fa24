"""alu fit: a defence around the user's own classifier and pictures."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alu.cli.options import (
    Address,
    Device,
    Engine,
    Root,
    Seed,
    Size,
    WorkerCount,
    checked_device,
    chosen_workers,
    crops_of,
    parse_size,
    wanted_by,
)
from alu.cli.running import InterruptedCommandError, hold, refuse_class, refuse_unwritable, stages
from alu.errors import StorageError, UsageError

if TYPE_CHECKING:
    from alu.fitted import Fitted
    from alu.stats import Share
    from alu.workers import Pool

WIDE = 135
"""Columns of a screen from which on the table shows an interval behind each share."""


def fit(
    classifier: Annotated[
        str,
        typer.Option(
            help="Your classifier: module:function that returns it, hf:FOLDER (transformers), timm:NAME, onnx:FILE, or "
            "a bundled name."
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="Clean images that the classifier was not trained on: a folder (one sub-folder per class), .npz, or a "
            "known name."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the defence to.")],
    purifier: Annotated[
        str,
        typer.Option(
            help="vae (trains one), pca, blur, median, jpeg, a bundled VAE, or a .safetensors file; methods of others: "
            "anti-adversary, hedge, soap, and for CIFAR-10 adp, diffpure, long-run, reverse."
        ),
    ] = "vae",
    steps: Annotated[
        int, typer.Option(help="A VAE's latent steps per image; more is slower and keeps more clean answers.")
    ] = 20,
    solver: Annotated[
        str,
        typer.Option(
            help="How the VAE makes them: adam, or learned (a second training makes a network that takes their place)."
        ),
    ] = "adam",
    detector: Annotated[
        str,
        typer.Option(
            help="peak (largest absolute logit change), shift (sum of the absolute logit changes, the paper's) or "
            "disagreement (how far the class probabilities move apart)."
        ),
    ] = "peak",
    rule: Annotated[
        str,
        typer.Option(help="What to answer: graded, alu, purified or abstain; auto takes the best of the first three."),
    ] = "auto",
    reference: Annotated[
        str, typer.Option(help="What the logits are compared with: input or reconstruction.")
    ] = "input",
    false_alarm: Annotated[float, typer.Option(help="Share of clean images that may be flagged.")] = 0.005,
    suspicious: Annotated[
        float | None,
        typer.Option(
            help="P-value up to which rule graded finds an image suspicious; chosen with the rule by default."
        ),
    ] = None,
    size: Size = None,
    root: Root = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs of the VAE's training; about 2,500 steps by default.")
    ] = None,
    max_minutes: Annotated[float, typer.Option(help="Refuse a training that would take longer than this.")] = 120.0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the VAE's training here for good; without it, in OUT.work until OUT is saved."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Save the defence even if it loses more than 10 points of clean accuracy.")
    ] = False,
    seed: Seed = 0,
    device: Device = "cpu",
    engine: Engine = "",
    address: Address = None,
    workers: WorkerCount = None,
) -> None:
    """Build a defence around your classifier: train or take a purifier, calibrate, measure on held-out images, save.

    Of your own pictures 70 % train the purifier, 15 % calibrate, 5 % choose and 10 % measure the result. A defence
    that loses more than 10 points of clean accuracy is not saved. Ctrl-C keeps the training; the same command goes on.

    Use pictures the classifier was not trained on, or train it only on alu's train split: alu.data.folder(path,
    "train"). With --engine ray the attacks of the measurement are shared out; the training is not.
    """
    work = checkpoint or (_beside(out) if purifier == "vae" else None)
    _refuse_places(out, data, checkpoint, work)
    hold(out)
    checked_device(device)
    pool = chosen_workers(engine, address, workers, device)
    plan = dict(
        purifier=purifier, steps=steps, solver=solver, detector=detector, rule=rule, reference=reference,
        false_alarm=false_alarm, suspicious=suspicious, epochs=epochs, max_minutes=max_minutes, seed=seed,
        device=device, checkpoint=work, replaces=checkpoint is None,
    )  # fmt: skip
    try:
        fitted = _fitted(classifier, data, size, root, plan, pool)
        _print_measured(fitted)
        factory = _factory(fitted, classifier)
        fitted.save(out, factory, force=force)
    except BaseException as error:
        if work is not None and checkpoint is None and not _has_training(work):
            shutil.rmtree(work, ignore_errors=True)
        _explain(error, out, work)
        raise
    if work is not None and checkpoint is None:
        shutil.rmtree(work, ignore_errors=True)
    trust = " --trust" if _needs_trust(fitted, factory) else ""
    sys.stdout.write(f"Saved to {out} after {fitted.seconds:.0f} s. Next: alu predict {out} PICTURES{trust}\n")


def _factory(fitted: Fitted, classifier: str) -> str | None:
    """The function that makes the classifier; None for a bundled one and for one that knows where it came from."""
    return classifier if ":" in classifier and getattr(fitted.defense.classifier, "source", None) is None else None


def _needs_trust(fitted: Fitted, factory: str | None) -> bool:
    """Whether loading the defence again would import code or may ask a hub."""
    from alu.models.adapters import local_path

    source = getattr(fitted.defense.classifier, "source", None)
    return factory is not None or (source is not None and local_path(source) is None)


def _beside(out: Path) -> Path:
    """Where a training is kept until its defence is saved."""
    place = out if out.name else out.absolute()
    return place.with_name(f"{place.name}.work")


def _has_training(work: Path | None) -> bool:
    return work is not None and (work / "checkpoint.safetensors").exists()


def _explain(error: BaseException, out: Path, work: Path | None) -> None:
    """Say what was kept, after an interruption or a defence that was refused."""
    from alu.fitted import HarmfulDefenseError
    from alu.training.checkpoint import progress_of

    if isinstance(error, KeyboardInterrupt):
        kept = "No partial files were left."
        if work is not None and _has_training(work):
            step = progress_of(work / "checkpoint.safetensors").step
            kept = f"The VAE's training up to step {step:,} is in {work}: run the same command again to resume."
        raise InterruptedCommandError(f"Interrupted. {out} was not written. {kept}") from error
    if isinstance(error, HarmfulDefenseError) and _has_training(work):
        error.args = (f"{error} The trained VAE is kept in {work}.",)


def _refuse_places(out: Path, data: str, checkpoint: Path | None, work: Path | None) -> None:
    """Say before an hour of work, not after it, that its result could not be written."""
    from alu.saving import is_defense

    if out.exists() and not (out.is_dir() and (is_defense(out) or not any(out.iterdir()))):
        raise StorageError(f"{out} is already there and was not written by alu. Choose another --out.")
    refuse_unwritable(out)
    refuse_class(out, data)
    if checkpoint is not None:
        place = checkpoint.absolute()
        if out.absolute() in (place, *place.parents):
            raise UsageError(
                f"--checkpoint {checkpoint} lies in --out {out}, which must be empty. Choose another folder."
            )
    elif work is not None and work.exists() and not (work / "run.json").is_file():
        raise StorageError(
            f"{work} exists and is not a training of alu; the VAE's training would be kept there. Remove it or choose "
            "another --out."
        )


def _fitted(
    classifier: str, data: str, size: str | None, root: Path | None, settings: dict[str, Any], pool: Pool
) -> Fitted:
    from alu.data import open_dataset
    from alu.fitting import Plan, fit_and_measure
    from alu.loading import load_classifier

    plan = Plan(**settings)
    parse_size(size)  # refused at once, not after the classifier was loaded
    made = load_classifier(classifier)
    wanted = wanted_by(made, data, size)
    parts = {name: open_dataset(data, name, root=root, **wanted) for name in plan.parts}
    if wanted["size"] is not None:
        _report_crops(data, parts["test"].shape[1:])
    with stages() as watch:
        return fit_and_measure(made, parts, plan=plan, workers=pool, watch=watch)


def _report_crops(data: str, size: tuple[int, ...]) -> None:
    from alu.data import find_pictures

    files = find_pictures(data)
    sentence = crops_of(files, (size[0], size[1])).sentence("--size", len(files))
    if sentence:
        sys.stderr.write(f"alu: warning: {sentence}\n")


def _print_measured(fitted: Fitted) -> None:
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
    for sentence in filter(None, (fitted.not_attacked, fitted.why)):
        console.print(sentence, soft_wrap=True, highlight=False, markup=False)
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
