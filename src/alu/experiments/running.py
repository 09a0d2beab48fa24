"""Run an experiment: cell by cell, one file that is whole after every cell, and go on from it."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from alu import models
from alu.errors import AluError, StorageError, UsageError, nearest
from alu.evaluation.result import checksum
from alu.experiments.base import Cell, Experiment
from alu.experiments.material import Material
from alu.provenance import commit, provenance
from alu.report.paper.results import read
from alu.storage import write_json

Watch = Callable[[str, int, int], None]


def reproduce(
    experiment: Experiment,
    out: Path,
    *,
    quick: bool = False,
    seed: int = 0,
    device: torch.device | str = "cpu",
    root: Path | None = None,
    fresh: bool = False,
    only: str = "*",
    watch: Watch = lambda *_: None,
) -> dict[str, Any]:
    """Measure every cell that is not in `out` yet and whose key matches `only`, write it after each one, and return all
    that is there."""
    sizes = experiment.sizes(quick)
    kept_before = _known(experiment, out, sizes, seed, fresh)
    known = {} if fresh else kept_before
    material = Material(sizes, seed, device, root, watch)
    every = experiment.cells(material)
    cells = [cell for cell in every if fnmatchcase(cell.key, only)]
    if not cells:
        # Rows, not cells: table 2 has nearly two hundred of them.
        rows = list(dict.fromkeys(re.split(r"[/,]", cell.key)[0] + "*" for cell in every))
        raise UsageError(f"{experiment.name} has no cell {only!r}. {nearest(only, rows)}")
    work = out.with_name(f"{out.name}.work")
    result: dict[str, Any] = {
        "experiment": experiment.name, "title": experiment.title, "quick": quick, "sizes": sizes, "seed": seed,
        "differs": experiment.differs, "why": experiment.why, "complete": False, "cells": {},
    }  # fmt: skip
    if quick and experiment.leaves_out:
        result["leaves out"] = experiment.leaves_out
    write(out, {**result, "cells": kept_before}, seed)  # a place that cannot be written to is better known now
    for number, cell in enumerate(cells):
        watch(experiment.name, number, len(cells))
        kept = known.get(cell.key)
        material.work = work / quote(cell.key, safe=" ,")
        result["cells"][cell.key] = kept if kept is not None and _holds(cell, kept) else _measured(cell)
        # What is still to be measured again stays until it is: an interruption costs one cell, not all of them.
        write(out, {**result, "cells": {**kept_before, **result["cells"]}}, seed)
        shutil.rmtree(material.work, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)
    found = {**kept_before, **result["cells"]}
    result["cells"] = {cell.key: found[cell.key] for cell in every if cell.key in found}
    result["complete"] = all("found" in result["cells"].get(cell.key, {}) for cell in every)
    write(out, result, seed)
    watch(experiment.name, len(cells), len(cells))
    return result


def write(out: Path, result: dict[str, Any], seed: int) -> None:
    """Write a result with where it comes from; its own checksum tells whether it was edited."""
    plain = {**result, "provenance": provenance(seed)}
    plain.pop("checksum", None)
    write_json(out, {**plain, "checksum": checksum(plain)})


def _known(experiment: Experiment, out: Path, sizes: dict[str, int], seed: int, fresh: bool) -> dict[str, Any]:
    """The cells that are there already; a file of other sizes, or of another seed, is only replaced by --fresh."""
    if not out.exists():
        return {}
    try:
        plain = read(out)
    except StorageError:
        if fresh:  # an edited or broken file is replaced, as its message promises
            return {}
        raise
    asked = {"experiment": experiment.name, "sizes": sizes, "seed": seed}
    for key, value in asked.items():
        if plain.get(key) != value:
            if fresh:
                return {}
            raise StorageError(
                f"{out} was measured with {key} {plain.get(key)!r}, not {value!r}. Choose another --out, or pass "
                "--fresh to measure it again."
            )
    cells: dict[str, Any] = plain["cells"]
    return cells


def _weights(cell: Cell) -> dict[str, str]:
    return {name: models.card(name).sha256[:12] for name in cell.needs}


def _holds(cell: Cell, kept: dict[str, Any]) -> bool:
    """Whether a kept cell stands: it was measured as it is now, with weights that are not known to be others now."""
    if "found" not in kept or kept.get("version", 1) != cell.version:
        return False
    missing = [name for name in cell.needs if name not in models.names()]
    return bool(missing) or bool(kept["weights"] == _weights(cell))


def _measured(cell: Cell) -> dict[str, Any]:
    missing = [name for name in cell.needs if name not in models.names()]
    if missing:
        return {"absent": f"{' and '.join(missing)} {'have' if len(missing) > 1 else 'has'} not been trained yet."}
    started = time.perf_counter()
    try:
        found = cell.run()
    except AluError as error:  # a data set or an extra is missing: the other cells can still be measured
        return {"absent": str(error)}
    return {
        "found": found, "weights": _weights(cell), "seconds": round(time.perf_counter() - started, 1),
        "commit": commit(), "version": cell.version,
    }  # fmt: skip
