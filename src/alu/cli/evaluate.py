"""alu evaluate: the strictest evaluation of a defence, or of any model, that fits the chosen budget."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from alu.cli.options import Device, Eps, Norm, Seed, checked_device, parse_threat
from alu.cli.places import hold, is_result, refuse_file
from alu.cli.stages import stages
from alu.errors import AluError, UsageError

if TYPE_CHECKING:
    from alu.evaluation.cascade import Evaluation
    from alu.evaluation.suite import Budget, Suite


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
    out: Annotated[Path, typer.Option(help="Result file (JSON); an interrupted run resumes when run again.")] = Path(
        "result.json"
    ),
    n: Annotated[int | None, typer.Option(help="How many test images to draw; all by default.", min=1)] = None,
    suite: Annotated[
        str,
        typer.Option(
            help="oblivious (attacks on the classifier), paper (also through the purifier) or adaptive (also attacks "
            "that know the defence)."
        ),
    ] = "adaptive",
    budget: Annotated[str, typer.Option(help="How long the attacks search: quick, standard or full.")] = "standard",
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

    Exits with 3 if the result is incomplete. `alu report` makes a page of it.
    """
    from alu.cli.subjects import find_images
    from alu.evaluation.estimate import estimate
    from alu.evaluation.evaluate import prepare, run
    from alu.loading import load

    threat, part = parse_threat(norm, eps), parse_shard(shard)
    refuse_file(out, "a result of alu evaluate", [Path(data)], is_result)
    hold(out)
    where = checked_device(device)
    with stages() as watch:
        model = load(subject, trust=trust, watch=watch).to(where)
    images = find_images(data, n, seed, root, size)
    name = subject if ":" in subject else None  # two modules of the user's own may have the same class name
    evaluation = prepare(
        model, images, None, threat, cast("Suite", suite), cast("Budget", budget), name=name, seed=seed, shard=part
    )
    refuse_other_result(out, evaluation)
    if budget != "quick":
        sys.stderr.write(f"alu: {estimate(evaluation)}.\n")
    try:
        with stages() as watch:
            result = run(evaluation, out=out, watch=watch)
    except KeyboardInterrupt as error:
        raise InterruptedEvaluationError(
            f"Interrupted. What was done is in {out}.work: run the same command again to resume."
        ) from error
    following = f"alu report {out}" if part[1] == 1 else f"alu merge with the other {part[1] - 1} of {part[1]} shards"
    sys.stdout.write(f"{result}\n\nWritten to {out}. Next: {following}\n")
    if not result.complete or (strict and any(item.status == "failed" for item in result.diagnostics)):
        raise typer.Exit(3)


def refuse_other_result(out: Path, evaluation: Evaluation) -> None:
    """A result is only replaced by the same evaluation, run again."""
    if not out.exists():
        return
    from alu.evaluation.cascade import differences_from
    from alu.evaluation.result import Result

    if differs := differences_from(Result.load(out), evaluation):
        raise UsageError(
            f"--out {out} holds a result with other settings: {'; '.join(differs)}. It was not replaced. "
            "Choose another --out."
        )


def parse_shard(text: str) -> tuple[int, int]:
    """(i, n) counted from 0, from "i/n" counted from 1."""
    first, slash, count = text.partition("/")
    if not (slash and first.isdigit() and count.isdigit() and 1 <= int(first) <= int(count)):
        raise UsageError(f"--shard is i/n with i from 1 to n, such as 2/4; {text!r} is not.")
    return int(first) - 1, int(count)
