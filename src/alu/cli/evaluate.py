"""alu evaluate: the strictest judgement of a defence, or of anyone's model, that this machine has time for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alu.cli.options import Device, Eps, Norm, Seed, checked_device, parse_threat
from alu.cli.places import hold, is_result, refuse_file
from alu.cli.stages import stages
from alu.errors import AluError, UsageError

if TYPE_CHECKING:
    from alu.data import Dataset
    from alu.threat import ThreatModel


class InterruptedEvaluationError(AluError):
    """The user pressed Ctrl-C."""

    exit_code = 130


def evaluate(
    subject: Annotated[
        str,
        typer.Argument(
            help="A saved defence (folder), a bundled classifier, a bundled defence (demo, demo-reconstruction, "
            "demo-purified, demo-abstain, demo-pca, demo-pca-purified, demo-pca-abstain, or a CIFAR-10 classifier with "
            "one of their purifiers, such as cifar10-unified+vae-reconstruction), or module:function."
        ),
    ],
    data: Annotated[
        str, typer.Option(help="Labelled images: a known name, a folder with one sub-folder per class, or .npz.")
    ] = "cifar10-sample",
    out: Annotated[Path, typer.Option(help="Result file (JSON); an interrupted run goes on from beside it.")] = Path(
        "result.json"
    ),
    n: Annotated[int | None, typer.Option(help="How many test images to draw; all by default.", min=1)] = None,
    suite: Annotated[
        str, typer.Option(help="oblivious (attacks on the classifier), paper (and through the purifier) or adaptive.")
    ] = "adaptive",
    budget: Annotated[str, typer.Option(help="quick, standard or full.")] = "standard",
    norm: Norm = "Linf",
    eps: Eps = None,
    shard: Annotated[str, typer.Option(help="i/n: the i-th of n parts, for several machines; see alu merge.")] = "1/1",
    size: Annotated[str | None, typer.Option(help="Scale a folder's pictures: 32, or 32x48.")] = None,
    root: Annotated[Path | None, typer.Option(help="Where a known data set's files are.")] = None,
    trust: Annotated[bool, typer.Option("--trust", help="Import the classifier that a saved defence names.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if a diagnostic fails.")] = False,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Attack what is deployed with everything that fits the budget, and write every outcome to a file.

    Ends with 3 if the result is incomplete. `alu report` makes a page of it.
    """
    from alu.cli.subjects import find_images, refuse_strangers
    from alu.evaluation.run import evaluate as run
    from alu.evaluation.subject import Subject
    from alu.loading import load

    threat, part = parse_threat(norm, eps), parse_shard(shard)
    refuse_file(out, "a result of alu evaluate", [Path(data)], is_result)
    hold(out)
    where = checked_device(device)
    with stages() as watch:
        model = load(subject, trust=trust, watch=watch).to(where)
    images = find_images(data, n, seed, root, size)
    refuse_strangers(model, images, where)
    name = subject if ":" in subject else None  # two of the user's own could not be told apart by their class
    _refuse_another(out, name or Subject(model).name, images, threat, seed)
    if budget != "quick":
        _say_how_long(model, images, threat, suite, budget, seed)
    try:
        with stages() as watch:
            result = run(model, images, threat, suite, budget, seed=seed, out=out, shard=part, name=name, watch=watch)
    except KeyboardInterrupt as error:
        raise InterruptedEvaluationError(
            f"Interrupted. What was done is in {out}.work: run the same command again to go on."
        ) from error
    following = f"alu report {out}" if part[1] == 1 else f"alu merge with the other {part[1] - 1} of {part[1]} shards"
    sys.stdout.write(f"{result}\n\nWritten to {out}. Next: {following}\n")
    if not result.complete or (strict and any(item.verdict == "failed" for item in result.diagnostics)):
        raise typer.Exit(3)


def _refuse_another(out: Path, subject: str, images: Dataset, threat: ThreatModel, seed: int) -> None:
    """A result may be measured again in its place, and nothing else may take it."""
    if not out.exists():
        return
    from alu.evaluation.result import Result

    there = Result.load(out)
    asked = {
        "subject": (there.subject.get("name"), subject), "data set": (there.dataset.get("name"), images.name),
        "norm": (there.threat.get("norm"), threat.norm), "eps": (there.threat.get("eps"), threat.eps),
        "seed": (there.provenance.get("seed"), seed),
    }  # fmt: skip
    for what, (known, now) in asked.items():
        if known != now:
            raise UsageError(
                f"--out {out} holds a result whose {what} is {known}, not {now}; it stays. Choose another --out."
            )


def parse_shard(text: str) -> tuple[int, int]:
    """(i, n) counted from 0, from "i/n" counted from 1."""
    first, slash, count = text.partition("/")
    if not (slash and first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count)):
        raise UsageError(f"--shard is i/n with i from 1 to n, such as 2/4; {text!r} is not.")
    return int(first) - 1, int(count)


def _say_how_long(model: Any, images: Dataset, threat: ThreatModel, suite: str, budget: str, seed: int) -> None:
    from alu.evaluation.estimate import estimate

    sys.stderr.write(f"alu: {estimate(model, images, threat, suite, budget, seed)}.\n")
