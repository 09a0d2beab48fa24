"""alu export: a defence as ONNX graphs that answer without torch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alu.cli.options import Root, Size, Trust, parse_size
from alu.cli.running import hold, refuse_class, refuse_unwritable, stages
from alu.errors import StorageError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from alu.exported import Exported


def export(
    defense: Annotated[
        str, typer.Argument(help="A defence saved by alu fit, or a bundled one such as cifar10-standard+vae.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the graphs to.")],
    data: Annotated[
        str | None,
        typer.Option(
            help="Calibrate the export on these clean images: the pictures of alu fit (its calibration part is taken), "
            "a folder, .npz, or a known name. A bundled defence has its own.",
            show_default=False,
        ),
    ] = None,
    classifier: Annotated[
        str | None, typer.Option(help="module:function that returns your classifier, if it is not the recorded one.")
    ] = None,
    trust: Trust = False,
    size: Size = None,
    root: Root = None,
) -> None:
    """Write a defence as a folder of ONNX graphs, with its calibration, that NumPy and onnxruntime can run.

    In Python: alu.exported.load(OUT).decide(arrays). P-values should come from the engine that answers, so the export
    is calibrated again where clean images are known. Parts that draw random numbers cannot be exported.
    """
    from alu.defense import Defense
    from alu.exported import is_export
    from alu.exporting import export as write
    from alu.loading import load
    from alu.parts import call_factory

    if out.exists() and not (out.is_dir() and (is_export(out) or not any(out.iterdir()))):
        raise StorageError(f"{out} is already there and is no export of alu. Choose another --out.")
    refuse_unwritable(out)
    if data is not None:
        refuse_class(out, data)
    hold(out)
    with stages() as watch:
        ready = load(defense, classifier=call_factory(classifier) if classifier else None, trust=trust, watch=watch)
        if not isinstance(ready, Defense):
            raise UsageError(f"{defense} is a classifier and no defence. alu fit builds one around it.")
        made = write(ready, out, _clean(defense, data, size, root), watch=watch)
    _report(made, out)


def _clean(defense: str, data: str | None, size: str | None, root: Path | None) -> Tensor | None:
    """The images to calibrate on, where they are known."""
    from alu.data import open_dataset, sample
    from alu.loading import bundled_defenses

    if data is not None:
        return open_dataset(data, "calibration", root=root, size=parse_size(size)).images
    if size is not None or root is not None:
        raise UsageError("--size and --root are about the images of --data. Give --data, or leave them out.")
    return sample("calibration").images if defense in bundled_defenses() else None


def _report(made: Exported, out: Path) -> None:
    """What was written, and whose p-values it has."""
    size = sum(file.stat().st_size for file in out.iterdir()) / 1e6
    graphs = ", ".join(made.facts["graphs"])
    sys.stdout.write(f"Exported to {out}: {size:.1f} MB; graphs {graphs}.\n")
    learned = made.calibration
    if learned is not None and len(learned.scores):
        sys.stdout.write(f"Calibrated on {len(learned.scores):,} clean images by {made.engine}.\n")
        if made.engine.startswith("torch"):
            sys.stderr.write(
                "alu: warning: p-values compare scores of onnxruntime with clean scores of torch, which differ a "
                "little. Give --data, so that both come from onnxruntime.\n"
            )
    sys.stdout.write(f'Next, without torch: alu.exported.load("{out}").decide(arrays)\n')
