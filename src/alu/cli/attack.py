"""alu attack: adversarial images as files."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alu.cli import options
from alu.cli.running import hold, refuse_class, refuse_file, refuse_unwritable, stages
from alu.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from alu.data import Dataset


def attack(
    subject: Annotated[str, typer.Argument(help="What to attack: as in alu evaluate.")],
    out: Annotated[
        Path, typer.Option(help="What to write: a .npz file, a .pt file (RobustBench), or a folder of PNG files.")
    ],
    name: Annotated[
        str,
        typer.Option(
            "--attack",
            help="fgsm, pgd, mim, cw-linf, cw-l2, apgd-ce, apgd-dlr, apgd-t, fab, square, autoattack, hopskipjump; on "
            "a defence also direct, boost, decoy, stealth, pattern, match, soft, transfer, query, trajectory; where it "
            "refuses also confident, denial; where it searches around the image also min-max, stall, "
            "straight-through, unrolled-search; on a mixture also flatten; or module:Class, an attack of your own "
            "(with --trust).",
        ),
    ] = "pgd",
    data: options.Images = "cifar10-sample",
    n: options.Count = None,
    norm: options.Norm = "Linf",
    eps: options.Eps = None,
    set: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of the attack, such as steps=50.")
    ] = None,
    lattice: Annotated[
        bool, typer.Option("--lattice", help="Search 8-bit values only, so that saving as a picture changes nothing.")
    ] = False,
    size: options.Size = None,
    root: options.Root = None,
    trust: options.Trust = False,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
) -> None:
    """Attack a defence or a classifier and write the adversarial images."""
    from alu.attacks.catalog import make_attack
    from alu.attacks.goals import fooled
    from alu.check import evaluating
    from alu.evaluation.subject import Subject
    from alu.integrations import labels_path
    from alu.loading import load
    from alu.models.normalisation import refuse_unnormalised

    writes_pictures = _refuse_place(out, data)
    hold(out)
    threat = options.parse_threat(norm, eps)
    settings = {**_settings(set or []), "norm": threat.norm, "eps": threat.eps, "seed": seed}
    # Pictures have 8 bits; anything finer would be lost between the attack and the file.
    search = make_attack(name, trust, **settings, lattice=lattice or writes_pictures)
    where = options.checked_device(device)
    with stages() as watch:
        model = load(subject, trust=trust, watch=watch).to(where)
    images = options.open_images(data, n, seed, root, size, model)
    attacked = Subject(model)
    attacked.check(images.images, images.name, images.classes)
    if writes_pictures and images.pixels.is_floating_point():
        raise UsageError(
            f"{data} has more than 8 bits per pixel; PNG would round the attack away. Write numbers: --out {out}.npz"
        )
    with evaluating(model):
        refuse_unnormalised(attacked.classifier, images.images.to(where), images.labels.to(where))
    with stages() as watch:
        found = search(
            model, images.images.to(where), images.labels.to(where), lambda done, total: watch("Attacking", done, total)
        )
    wrong = int(fooled(model, found, images.labels.to(where)).sum())
    write_images(out, found.cpu(), images)
    beside = f" and {labels_path(out)}" if out.suffix.lower() == ".pt" else ""
    sys.stdout.write(f"{wrong} of {len(images)} images are answered wrongly. Written to {out}{beside}.\n")


def _refuse_place(out: Path, data: str) -> bool:
    """Whether pictures are asked for; a place that is taken, or a kind of file that is not written, is refused."""
    from alu.integrations import labels_path

    suffix = out.suffix.lower()
    if suffix in (".npz", ".pt"):
        refuse_file(out, f"a name that ends in {suffix}")
        if suffix == ".pt":
            refuse_file(labels_path(out), "the labels' place")
        return False
    if re.fullmatch(r"\.[a-z]{2,5}", suffix):
        raise UsageError(
            f"--out {out}: adversarial images are written as .npz, as .pt, or as PNG files in a folder whose name has "
            f"no ending. {suffix} is none of them."
        )
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError(f"{out} is already there and is not an empty folder. Choose another --out.")
    refuse_class(out, data)
    refuse_unwritable(out)
    return True


def _settings(words: list[str]) -> dict[str, Any]:
    """The attack's own settings; what has an option of its own is not one of them."""
    found = options.parse_settings(words, "steps=50")
    for key in ("norm", "eps", "seed", "lattice"):
        if key in found:
            raise UsageError(f"--set {key}=... is not a setting of the attack. Use the option --{key}.")
    if "targeted" in found:
        raise UsageError(
            "alu attack looks for any wrong answer; a targeted attack needs the classes to reach, one for each image: "
            "in Python, PGD(targeted=True)(model, images, targets)."
        )
    return found


def write_images(out: Path, found: Tensor, images: Dataset) -> None:
    """Write a .npz file, a .pt file, or PNG files in one sub-folder per class."""
    import numpy as np

    from alu.data.pictures import as_picture
    from alu.storage import replacing, replacing_folder

    if out.suffix.lower() == ".pt":
        from alu.integrations import export

        export(out, found, images.labels)
    elif out.suffix.lower() == ".npz":
        with replacing(out) as temporary, temporary.open("wb") as file:
            classes = np.array(images.classes)
            np.savez_compressed(file, images=found.numpy(), labels=images.labels.numpy(), classes=classes)
    else:
        with replacing_folder(out, lambda _: False) as folder:
            for number, label, image in zip(images.indices.tolist(), images.labels.tolist(), found, strict=True):
                place = folder / images.classes[label].replace("/", "-")
                place.mkdir(exist_ok=True)
                as_picture(image).save(place / f"{number:06d}.png")
