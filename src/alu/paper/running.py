"""Run an experiment cell by cell: its file is whole after every cell, and another run goes on from it."""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from alu import models
from alu.errors import AluError, StorageError, UsageError, nearest
from alu.paper import find
from alu.paper.base import Cell, Experiment, Sizes
from alu.paper.claims import Verdict
from alu.paper.page import text
from alu.paper.store import Results, read, write
from alu.paper.views import Table
from alu.paper.workbench import Workbench
from alu.progress import Watch, silent
from alu.provenance import commit
from alu.workers import Desk, Kept, Pool, pool_of


@dataclass(frozen=True)
class Reproduced:
    """One experiment as it was measured; it prints as its tables with what became of its claims."""

    name: str
    results: Results

    def __str__(self) -> str:
        return text(self.results, self.name)

    @property
    def tables(self) -> list[Table]:
        """Its tables, without charts."""
        return [panel for panel in find(self.name).view(self.results) if isinstance(panel, Table)]

    @property
    def rows(self) -> list[list[str]]:
        """The rows of its first table; the first cell of a row is its name."""
        return [list(row) for row in self.tables[0].rows]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """What became of its claims, by name."""
        return {claim.name: verdict for claim, verdict in find(self.name).verdicts(self.results)}


def reproduce(
    name: str,
    *,
    quick: bool = False,
    out: Path | str | None = None,
    only: str = "*",
    fresh: bool = False,
    seed: int = 0,
    device: torch.device | str = "cpu",
    root: Path | None = None,
    workers: int | Pool | None = None,
    watch: Watch = silent,
) -> Reproduced:
    """Measure a table or figure of the paper again; what `alu reproduce` does, in Python.

    Parameters
    ----------
    name : str
        An experiment, such as "table2"; `alu reproduce list` names all.
    quick : bool
        A first look: few images, at most five minutes on two cores.
    out : Path or str, optional
        Folder of the results: "results", or "results/quick". Cells that are already there are kept.
    only : str
        Measure only cells whose name matches this pattern, such as ``"cifar10-at/*"``.
    fresh : bool
        Measure again what is already there.
    seed, device, root
        Seed of all random numbers; where networks run; where CIFAR-100 and tiny-ImageNet are.
    workers : int or alu.Workers, optional
        How many processes measure cells at the same time; what they measure is the same.
    watch : callable
        Called with (what is done, how much, of how much).

    Examples
    --------
    >>> import tempfile
    >>> import alu
    >>> table = alu.reproduce("one-step", quick=True, out=tempfile.mkdtemp())
    >>> table.rows[0][0]
    '1 outputs'
    """
    folder = Path(out) if out is not None else Path("results") / ("quick" if quick else "")
    experiment = find(name)
    run(
        experiment, folder / f"{name}.json", quick=quick, seed=seed, device=device, root=root, fresh=fresh, only=only,
        workers=workers, watch=watch,
    )  # fmt: skip
    return Reproduced(name, Results.open(folder))


def run(
    experiment: Experiment[Any],
    out: Path,
    *,
    quick: bool = False,
    seed: int = 0,
    device: torch.device | str = "cpu",
    root: Path | None = None,
    fresh: bool = False,
    only: str = "*",
    workers: int | Pool | None = None,
    watch: Watch = silent,
) -> dict[str, Any]:
    """Measure every cell that is not in `out` yet and whose key matches `only`; write after each; return all."""
    sizes = experiment.form(quick)
    before = _cells_of(experiment, out, sizes, seed, fresh)
    every = experiment.cells(sizes)
    chosen = _chosen(experiment.name, every, only)
    work = out.with_name(f"{out.name}.work")
    result: dict[str, Any] = {
        "experiment": experiment.name, "title": experiment.title, "quick": quick, "sizes": sizes, "seed": seed,
        "differs": experiment.differs, "why": experiment.why, "complete": False, "cells": {},
    }  # fmt: skip
    if quick and experiment.leaves_out:
        result["leaves out"] = experiment.leaves_out
    records = dict(before)
    write(out, {**result, "cells": records}, seed)  # a place that cannot be written to is better known now
    # What is still to be measured again stays until it is: an interruption costs one cell, not all of them.
    waiting = [cell for cell in chosen if fresh or not _is_current(cell, before.get(str(cell.key), {}))]
    there = len(chosen) - len(waiting)
    watch(experiment.name, there, len(chosen))

    def kept(cell: Cell[Any]) -> Kept:
        return Kept(work / quote(str(cell.key), safe=" ,"))

    with pool_of(None if experiment.timed else workers) as pool:
        pool.refuse_device(device)

        def heard(number: int, what: str, amount: int, total: int) -> None:
            # Several cells may do the same at the same time.
            watch(f"{waiting[number].key}: {what}" if pool.apart else what, amount, total)

        bench = Workbench(sizes, seed, device, root)
        bench.shared = None if pool.apart else work  # other processes may be on other machines
        given = experiment, bench
        for done, (number, record) in enumerate(pool.run(measure, given, waiting, heard=heard, kept=kept), start=1):
            records[str(waiting[number].key)] = record
            write(out, {**result, "cells": records}, seed)
            shutil.rmtree(kept(waiting[number]).folder, ignore_errors=True)
            watch(experiment.name, there + done, len(chosen))
    shutil.rmtree(work, ignore_errors=True)
    result["cells"] = {str(cell.key): records[str(cell.key)] for cell in every if str(cell.key) in records}
    result["complete"] = all("found" in result["cells"].get(str(cell.key), {}) for cell in every)
    write(out, result, seed)
    return result


def measure(shared: tuple[Experiment[Any], Workbench], cell: Cell[Any], desk: Desk) -> dict[str, Any]:
    """The record of one cell, wherever this runs; the workbench stays for the next."""
    experiment, bench = shared
    bench.work, bench.watch = desk.folder, desk.watch
    return _measured(experiment, cell, bench)


def _cells_of(experiment: Experiment[Any], out: Path, sizes: Sizes, seed: int, fresh: bool) -> dict[str, Any]:
    """The cells that are there already; a file of other sizes, or of another seed, is only replaced by `fresh`."""
    if not out.exists():
        return {}
    try:
        plain = read(out)
    except StorageError:
        if fresh:  # an edited or broken file is replaced, as its message promises
            return {}
        raise
    for key, value in {"experiment": experiment.name, "sizes": sizes, "seed": seed}.items():
        if plain.get(key) != value:
            if fresh:
                return {}
            raise StorageError(
                f"{out} was measured with {key} {plain.get(key)!r}, not {value!r}. Choose another folder, or "
                "pass fresh=True to measure it again."
            )
    cells: dict[str, Any] = plain["cells"]
    return cells


def _chosen(name: str, every: list[Cell[Any]], only: str) -> list[Cell[Any]]:
    """The cells whose keys match; none of an experiment that is computed from the cells of others."""
    if not every:
        return []
    cells = [cell for cell in every if fnmatchcase(str(cell.key), only)]
    if not cells:
        # Rows, not cells: table 2 has nearly two hundred of them.
        rows = list(dict.fromkeys(re.split(r"[/,]", str(cell.key))[0] + "*" for cell in every))
        raise UsageError(f"{name} has no cell {only!r}. {nearest(only, rows)}")
    return cells


def _untrained(cell: Cell[Any]) -> list[str]:
    return [name for name in cell.needs if name not in models.names()]


def _weights(cell: Cell[Any]) -> dict[str, str]:
    return {name: models.card(name).sha256[:12] for name in cell.needs}


def _is_current(cell: Cell[Any], kept: dict[str, Any]) -> bool:
    """Whether a kept cell stands: it was measured as it is now, with weights that are not known to be others now."""
    if "found" not in kept or kept.get("version", 1) != cell.version:
        return False
    return bool(_untrained(cell)) or bool(kept["weights"] == _weights(cell))


def _measured(experiment: Experiment[Any], cell: Cell[Any], bench: Workbench) -> dict[str, Any]:
    missing = _untrained(cell)
    if missing:
        return {"absent": f"{' and '.join(missing)} {'have' if len(missing) > 1 else 'has'} not been trained yet."}
    started = time.perf_counter()
    try:
        measured = experiment.measure(bench, cell.key)
    except AluError as error:  # a data set or an extra is missing: the other cells can still be measured
        return {"absent": str(error)}
    return {
        "found": measured, "weights": _weights(cell), "seconds": round(time.perf_counter() - started, 1),
        "commit": commit(), "version": cell.version,
    }  # fmt: skip
