"""alu evaluate, and what is done with its results: alu merge and alu report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from alu.cli import options
from alu.cli.running import InterruptedCommandError, hold, is_page, refuse_file, stages
from alu.errors import StorageError, UsageError

if TYPE_CHECKING:
    from alu.evaluation.result import Result
    from alu.evaluation.suite import Budget, Evaluation, Suite


def evaluate(
    subject: Annotated[
        str,
        typer.Argument(
            help="A saved defence (folder), a bundled classifier, a bundled defence (demo, demo-reconstruction, "
            "demo-purified, demo-abstain, demo-pca, demo-pca-purified, demo-pca-abstain, or a CIFAR-10 classifier with "
            "one of their purifiers, such as cifar10-unified+vae-reconstruction), module:function, or a classifier of "
            "another library: hf:FOLDER, timm:NAME, onnx:FILE."
        ),
    ],
    data: options.Images = "cifar10-sample",
    out: Annotated[
        Path, typer.Option(help="Result file (JSON). Run the same command again to resume an interrupted run.")
    ] = Path("result.json"),
    n: options.Count = None,
    suite: Annotated[
        str,
        typer.Option(
            help="oblivious (attacks on the classifier), paper (also through the purifier) or adaptive (also attacks "
            "that know the defence)."
        ),
    ] = "adaptive",
    budget: Annotated[str, typer.Option(help="How long the attacks search: quick, standard or full.")] = "standard",
    norm: options.Norm = "Linf",
    eps: options.Eps = None,
    shard: Annotated[
        str, typer.Option(help="i/n: only part i of n, to spread the work over machines; see alu merge.")
    ] = "1/1",
    size: options.Size = None,
    root: options.Root = None,
    trust: options.Trust = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 if a diagnostic fails.")] = False,
    seed: options.Seed = 0,
    device: options.Device = "cpu",
    engine: options.Engine = "",
    address: options.Address = None,
    workers: options.WorkerCount = None,
) -> None:
    """Attack what is deployed with everything that fits the budget, and write every outcome to a file.

    Exits with 3 if the result is incomplete. `alu report` makes a page of it.
    """
    from alu.evaluation.estimate import estimate
    from alu.evaluation.evaluate import prepare, run
    from alu.loading import load

    threat, part = options.parse_threat(norm, eps), parse_shard(shard)
    earlier = earlier_result(out)
    refuse_file(out, "a result of alu evaluate", [Path(data)], lambda _: earlier is not None)
    hold(out)
    where = options.checked_device(device)
    pool = options.chosen_workers(engine, address, workers, device)
    with stages() as watch:
        model = load(subject, trust=trust, watch=watch).to(where)
    images = options.open_images(data, n, seed, root, size, model)
    name = subject if ":" in subject else None  # two modules of the user's own may have the same class name
    evaluation = prepare(
        model, images, None, threat, cast("Suite", suite), cast("Budget", budget), name=name, seed=seed, shard=part
    )
    if earlier is not None:
        refuse_other_result(out, earlier, evaluation)
    if budget != "quick":
        sys.stderr.write(f"alu: {estimate(evaluation)}.\n")
    try:
        with stages() as watch:
            result = run(evaluation, out=out, workers=pool, watch=watch)
    except KeyboardInterrupt as error:
        raise InterruptedCommandError(
            f"Interrupted. What was done is in {out}.work: run the same command again to resume."
        ) from error
    following = f"alu report {out}" if part[1] == 1 else f"alu merge with the other {part[1] - 1} of {part[1]} shards"
    sys.stdout.write(f"{result}\n\nWritten to {out}. Next: {following}\n")
    if not result.complete or (strict and any(item.status == "failed" for item in result.diagnostics)):
        raise typer.Exit(3)


def earlier_result(out: Path) -> Result | None:
    """The result that is there already; None if there is none, or something else."""
    from alu.evaluation.result import Result

    try:
        return Result.load(out) if out.is_file() else None
    except StorageError:
        return None


def refuse_other_result(out: Path, earlier: Result, evaluation: Evaluation) -> None:
    """A result is only replaced by the same evaluation, run again."""
    from alu.evaluation.cascade import differences_from

    if differs := differences_from(earlier, evaluation):
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


def merge(
    shards: Annotated[list[Path], typer.Argument(help="The result of every shard, in any order.")],
    out: Annotated[Path, typer.Option(help="The whole result.")],
) -> None:
    """Join the shards of one evaluation into the result that one run would have given."""
    from alu.evaluation.merging import merge as joined
    from alu.evaluation.result import Result

    # Results are raw outcomes that cost hours; a slip of the keyboard must not replace one.
    refuse_file(out, "a result", shards, lambda path: earlier_result(path) is not None)
    result = joined([Result.load(path) for path in shards])
    result.save(out)
    typer.echo(str(result))
    typer.echo(f"Result: {out.resolve().as_uri()}")
    if not result.complete:
        raise typer.Exit(3)


def report(
    results: Annotated[list[Path], typer.Argument(help="Results of alu evaluate or alu merge.")],
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
) -> None:
    """Make one self-contained page of results: tables, charts, images, diagnostics; several are compared."""
    from alu.evaluation.result import Result
    from alu.report import write

    refuse_file(out, "a page", results, is_page)
    write([Result.load(path) for path in results], out)
    typer.echo(f"Page: {out.resolve().as_uri()}")
