"""alu certify: proven L2 radii of a classifier under noise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alu.cli import options
from alu.cli.running import InterruptedCommandError, hold, print_table, refuse_file, stages
from alu.errors import StorageError, UsageError
from alu.storage import read_checked, read_json, write_checked

if TYPE_CHECKING:
    from torch import Tensor

    from alu.data import Dataset
    from alu.models import Smoothed
    from alu.workers import Desk, Pool

RADII = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""The radii of the table, as far as the samples can prove them."""
PORTION = 10
"""Images between two times that the file is written."""


def certify(
    classifier: Annotated[str, typer.Argument(help="A bundled classifier, or yours, as in alu fit.")],
    sigma: Annotated[
        float, typer.Option(help="Standard deviation of the noise, for images in [0, 1]; what it was trained with.")
    ] = 0.25,
    denoiser: Annotated[
        str | None, typer.Option(help="A bundled denoiser or VAE before a classifier that was not trained on noise.")
    ] = None,
    data: options.Images = "cifar10-sample",
    n: options.Count = None,
    samples: Annotated[int, typer.Option(help="Noisy copies that prove a radius.", min=1)] = 10_000,
    first: Annotated[int, typer.Option(help="Noisy copies before them, which choose the class.", min=1)] = 100,
    alpha: Annotated[float, typer.Option(help="Probability with which a certificate may be wrong.")] = 0.001,
    radius: Annotated[
        float | None,
        typer.Option(help="Only ask whether the radius is at least this: stops early, and answers only then."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Keep label and radius of each image here (.json); a second run resumes.")
    ] = None,
    size: options.Size = None,
    root: options.Root = None,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    engine: options.Engine = "",
    address: options.Address = None,
    workers: options.WorkerCount = None,
) -> None:
    """Prove how far a classifier's answers hold: majority votes under Gaussian noise (randomised smoothing).

    Every image within the radius (L2) of the one received gets the same answer, except with probability alpha. That is
    no promise that the answer is right. The classifier must have been trained on such noise, or stand behind a
    denoiser.
    """
    from alu.loading import load_classifier
    from alu.models import Denoised, Smoothed

    if out is not None:
        if out.suffix.lower() != ".json":
            raise UsageError(f"--out {out}: certificates are written as .json.")
        refuse_file(out, "certificates of alu certify", (), _is_ours)
        hold(out)
    where = options.checked_device(device)
    pool = options.chosen_workers(engine, address, workers, device)
    network: Any = load_classifier(classifier)
    images = options.open_images(data, n, seed, root, size, network)
    network = network if denoiser is None else Denoised(denoiser, network)
    smoothed = Smoothed(network.to(where) if hasattr(network, "to") else network, sigma, seed=seed)
    settings = {
        "classifier": classifier, "denoiser": denoiser, "sigma": sigma, "data": images.name,
        "images": images.indices.tolist(), "samples": samples, "first": first, "alpha": alpha, "radius": radius,
        "seed": seed,
    }  # fmt: skip
    rows = _kept(out, settings)
    try:
        _certify_all(pool, smoothed, images, settings, rows, out)
    except KeyboardInterrupt as error:
        kept = "No partial files were left." if out is None else f"{len(rows)} images are kept in {out}; run it again."
        raise InterruptedCommandError(f"Interrupted. {kept}") from error
    _report(rows, smoothed.largest_radius(samples, alpha), radius)


def _is_ours(path: Path) -> bool:
    plain = read_json(path)
    return isinstance(plain, dict) and "certificates" in plain


def _kept(out: Path | None, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What an earlier run with the same settings left in the file."""
    if out is None or not out.exists():
        return []
    plain = read_checked(out, "a file of alu certify", "Choose another --out.")
    for key, value in settings.items():
        if plain["settings"].get(key) != value:
            raise StorageError(f"{out} was made with another {key}. Choose another --out, or delete it to begin anew.")
    rows: list[dict[str, Any]] = plain["certificates"]
    return rows


def _certify_all(
    pool: Pool, smoothed: Smoothed, images: Dataset, settings: dict[str, Any], rows: list[dict[str, Any]],
    out: Path | None,
) -> None:  # fmt: skip
    """Certify the images that have no row yet, a few at a time."""
    from alu.check import find_device
    from alu.provenance import provenance

    asked = {
        "n": settings["samples"],
        "n0": settings["first"],
        "alpha": settings["alpha"],
        "radius": settings["radius"],
    }
    parameter = next(smoothed.parameters(), None)
    where = parameter.device if parameter is not None else find_device("cpu")
    starts = range(len(rows), len(images), PORTION)
    parts = (images.take(range(start, min(start + PORTION, len(images)))) for start in starts)
    pieces = ((part.images.to(where), part.labels.tolist()) for part in parts)
    with stages() as watch:
        for _, found in pool.run(certified, (smoothed, asked), pieces, in_order=True):
            rows += found
            if out is not None:
                facts = {"settings": settings, "certificates": rows, "provenance": provenance(settings["seed"])}
                write_checked(out, facts)
            watch("Certifying", len(rows), len(images))


def certified(
    shared: tuple[Smoothed, dict[str, Any]], piece: tuple[Tensor, list[int]], desk: Desk
) -> list[dict[str, Any]]:
    """The rows of a few images, wherever this runs."""
    (smoothed, asked), (images, labels) = shared, piece
    found = smoothed.certify(images, **asked)
    values = (labels, found.labels.tolist(), found.radii.tolist(), found.samples.tolist())
    return [
        {"true": true, "label": label, "radius": round(reach, 6), "samples": count}
        for true, label, reach, count in zip(*values, strict=True)
    ]


def _report(rows: list[dict[str, Any]], largest: float, radius: float | None) -> None:
    """Certified accuracy at each radius; or, at the one asked for, what is answered and what is proven."""
    from alu.stats import Share

    right = [row["true"] == row["label"] for row in rows]

    def share(hits: list[bool]) -> str:
        return str(Share(sum(hits), len(hits)))

    if radius is None:
        table = [
            [f"{reach:g}", share([ok and row["radius"] >= reach for ok, row in zip(right, rows, strict=True)])]
            for reach in RADII
            if reach < largest
        ]
        print_table(["radius (L2)", "certified and right"], table)
    else:
        table = [
            ["answered", share([row["label"] >= 0 for row in rows])],
            ["answered and right", share(right)],
            [f"never wrong within {2 * radius:g} (proven RAR)", share(right)],
        ]
        print_table([f"radius at least {radius:g} (L2)", "share of images"], table)
    counts = sorted(row["samples"] for row in rows)
    sys.stdout.write(f"n = {len(rows)}; half of the images needed at most {counts[len(counts) // 2]:,} samples.\n")
