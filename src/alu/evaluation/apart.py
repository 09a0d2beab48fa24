"""An evaluation whose blocks are attacked in other processes; what they leave is read as after an interruption."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from alu.check import evaluating
from alu.evaluation.cascade import attack_block, open_folder
from alu.evaluation.harmless import harmless_rows
from alu.evaluation.probes import STAGE, Probed, probe
from alu.evaluation.suite import Evaluation
from alu.progress import Watch
from alu.workers import Desk, Kept, Pool

HARMLESS = "Harmless changes"
ATTACKING = {"": "Attacking", "bare": "Attacking the bare classifier", "rival": "Attacking refusal by confidence"}
"""What is evaluated, by the name of its folder inside that of the evaluation, and what is said while it is attacked."""


@dataclass(frozen=True)
class Piece:
    """One block of one of the evaluations; without a block, the questions or the harmless changes of the first."""

    part: str = ""
    block: int | None = None
    stage: str = ""


@dataclass
class Apart:
    """What was measured apart and is not in the folder."""

    harmless: list[dict[str, Any]] | None = None
    probed: Probed | None = None


@contextmanager
def folder_for(pool: Pool, folder: Path | None) -> Iterator[Path | None]:
    """The folder of an evaluation; other processes need one even where nothing is to be kept."""
    if folder is not None or not pool.apart:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="alu-evaluation-") as place:
        yield Path(place)


def attack_apart(pool: Pool, parts: Mapping[str, Evaluation], folder: Path, diagnostics: bool, watch: Watch) -> Apart:
    """Fill the folder with every block of all parts, each attacked by one of the pool; where the evaluation doubts
    itself, that is done apart too."""
    pool.refuse_device(parts[""].subject.device)
    for name, part in parts.items():
        open_folder(folder / name, part.settings())
    pieces = list(_pieces(parts, diagnostics))
    passes = {name: len(part.attacks) + 1 for name, part in parts.items()}
    totals = {name: passes[name] * len(part.blocks) for name, part in parts.items()}
    # Without what each can compute for itself, and without the other parts, which are sent by themselves.
    sent = {name: replace(part, bare=None) for name, part in parts.items()}
    done: dict[int, int] = {}

    def heard(number: int, what: str, amount: int, total: int) -> None:
        piece = pieces[number]
        if piece.block is None:
            watch(what, amount, total)
            return
        done[number] = amount
        watch(what, sum(done.get(n, 0) for n, one in enumerate(pieces) if one.stage == what), totals[piece.part])

    def kept(piece: Piece) -> Kept | None:
        return None if piece.block is None else Kept(folder / piece.part, _block_file(piece.block))

    found = Apart()
    for number, value in pool.run(measure, sent, pieces, heard=heard, kept=kept):
        piece = pieces[number]
        if piece.stage == HARMLESS:
            found.harmless = value
        elif piece.stage == STAGE:
            found.probed = value
        else:
            heard(number, piece.stage, passes[piece.part], 0)
    return found


def _pieces(parts: Mapping[str, Evaluation], diagnostics: bool) -> Iterator[Piece]:
    """What takes longest first, so that at the end no worker waits long for another."""
    for name, part in parts.items():
        yield from (Piece(name, block, ATTACKING[name]) for block in part.blocks)
        if not name and diagnostics:
            yield Piece(stage=STAGE)
            if part.subject.defense is not None:
                yield Piece(stage=HARMLESS)


def _block_file(number: int) -> str:
    return f"block-{number:04d}.json"


def measure(sent: Mapping[str, Evaluation], piece: Piece, desk: Desk) -> Any:
    """One piece, wherever this runs; a block stays in the desk's folder."""
    evaluation = sent[piece.part]
    with evaluating(evaluation.subject.model):
        if piece.stage == STAGE:
            return probe(evaluation, desk.watch)
        if piece.stage == HARMLESS:
            return harmless(evaluation, desk.watch)
        passes = len(evaluation.attacks) + 1
        attack_block(
            evaluation, desk.folder, cast(int, piece.block), lambda done: desk.watch(piece.stage, done, passes)
        )
    return None


def harmless(evaluation: Evaluation, watch: Watch) -> list[dict[str, Any]]:
    """The answers of a defence to harmless changes of its first images."""
    few = slice(0, 2 * evaluation.block_size)
    assert evaluation.subject.defense is not None
    return harmless_rows(
        evaluation.subject.defense, evaluation.images[few], evaluation.labels[few],
        watch=lambda done, total: watch(HARMLESS, done, total),
    )  # fmt: skip
