"""evaluate: attack a defence as its strongest opponent would, and return every outcome."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from torch import Tensor

from alu.check import check_images, check_labels, evaluating, warn
from alu.data.dataset import Dataset
from alu.defense import Defense
from alu.errors import UsageError, check_choice
from alu.evaluation.apart import ATTACKING, Apart, attack_apart, folder_for, harmless
from alu.evaluation.cascade import attack_block, blank_record, blank_result, open_folder
from alu.evaluation.networks import other_networks
from alu.evaluation.obligations import unmet
from alu.evaluation.probes import diagnose, observed_traits
from alu.evaluation.refusal import rival
from alu.evaluation.result import Answers, Result
from alu.evaluation.subject import Subject
from alu.evaluation.suite import BUDGETS, SUITES, Budget, Entry, Evaluation, Suite
from alu.evaluation.verdicts import eps_text
from alu.models.normalisation import refuse_unnormalised
from alu.progress import Count, Watch, silent
from alu.provenance import provenance
from alu.threat import ThreatModel
from alu.workers import Pool, pool_of

PROBED = 8
"""How many images show a subject's traits."""


class Options(TypedDict, total=False):
    """What `evaluate` takes by keyword only."""

    name: str | None
    seed: int
    out: Path | str | None
    shard: tuple[int, int]
    block_size: int
    extra: Sequence[Entry]
    diagnostics: bool
    bare: bool
    workers: int | Pool | None
    watch: Watch


@overload
def evaluate(
    defense: Any,
    images: Tensor,
    labels: Tensor,
    threat: ThreatModel | None = None,
    suite: Suite = "adaptive",
    budget: Budget = "standard",
    *,
    classes: Sequence[str] | None = None,
    **options: Unpack[Options],
) -> Result: ...
@overload
def evaluate(
    defense: Any,
    images: Dataset,
    threat: ThreatModel | None = None,
    suite: Suite = "adaptive",
    budget: Budget = "standard",
    **options: Unpack[Options],
) -> Result: ...
def evaluate(
    defense: Any,
    images: Any,
    *arguments: Any,
    out: Path | str | None = None,
    diagnostics: bool = True,
    workers: int | Pool | None = None,
    watch: Watch = silent,
    **settings: Any,
) -> Result:
    """Attack a calibrated defence, or any model, on every image, and return all outcomes.

    Also called with a `Dataset` in place of images and labels: `alu.evaluate(defense, dataset, threat)`.

    Parameters
    ----------
    defense
        An `alu.Defense`, or any callable from images in [0, 1] to logits.
    images, labels
        The test images [N, C, H, W] in [0, 1], and their classes [N].
    threat
        What the attacker may do; L∞ with eps 8/255 by default.
    suite
        "oblivious" (attacks on the classifier), "paper" (also through the purifier) or "adaptive" (also attacks that
        know the defence).
    budget
        "quick", "standard" or "full": how long the attacks search.
    classes
        Class names; those of the defence by default, or numbers.
    name
        What the result calls the defence; its parts by default.
    seed
        The seed of all random numbers.
    out
        Where to write the result. An interrupted evaluation resumes from a folder beside it when called again.
    shard
        (i, n): the i-th of n parts, counted from 0; `alu.evaluation.merging.merge` joins them.
    block_size
        How many images are attacked at once.
    extra
        Further attacks, run after those of the suite.
    diagnostics
        Whether the evaluation also checks itself, and what harmless changes cost.
    bare
        Whether what a defence is compared with is attacked too: its classifier without the defence and, if it refuses,
        refusal by confidence; otherwise it is not known whether the defence helps against an attacker who knows it.
    workers
        How many processes attack blocks at the same time, or `alu.Workers`; the result is that of one process but for
        times. None: this one attacks all of them.
    watch
        Called with (what is being done, how much is done, how much there is).

    Examples
    --------
    >>> result = alu.evaluate(classifier, images, labels, suite="oblivious", budget="quick", diagnostics=False)
    >>> result.clean_accuracy >= result.robust_accuracy
    True
    """
    if isinstance(images, Dataset):  # it holds the labels
        arguments = (None, *arguments)
    prepared = prepare(defense, images, *arguments, **settings)
    return run(prepared, out=out, diagnostics=diagnostics, workers=workers, watch=watch)


def prepare(
    defense: Any,
    images: Tensor | Dataset,
    labels: Tensor | None = None,
    threat: ThreatModel | None = None,
    suite: Suite = "adaptive",
    budget: Budget = "standard",
    *,
    classes: Sequence[str] | None = None,
    name: str | None = None,
    seed: int = 0,
    shard: tuple[int, int] = (0, 1),
    block_size: int = 50,
    extra: Sequence[Entry] = (),
    bare: bool = True,
) -> Evaluation:
    """Check everything that `evaluate` is given, and fix everything that its attacks need; nothing is attacked yet."""
    check_choice("suite", suite, SUITES)
    check_choice("budget", budget, BUDGETS)
    subject = Subject(defense, name)
    dataset = _dataset(subject, images, labels, classes)
    _refuse_wrong_size(len(dataset), shard, block_size)
    pixels, truth = dataset.images.to(subject.device), dataset.labels.to(subject.device)
    subject.check(pixels, dataset.name, dataset.classes)
    threat = threat or ThreatModel()
    _doubt_radius(subject.defense, threat)
    with evaluating(subject.model):
        refuse_unnormalised(subject.classifier, pixels, truth)
        evaluation = Evaluation(
            _observed(subject, pixels, truth), dataset, pixels, truth, threat, suite, budget, seed,
            block_size, provenance(seed), shard, other_networks(subject, dataset),
        )  # fmt: skip
        without = None
        if bare and subject.defense is not None:
            without = replace(evaluation, subject=_observed(Subject(subject.classifier), pixels, truth))
    return replace(evaluation, extra=tuple(extra), bare=without)


def _doubt_radius(defense: Defense | None, threat: ThreatModel) -> None:
    """Warn where a check looks further than the attacker can go: with half of that it keeps more and promises as much.

    With a radius r of at least eps / 2 what is kept is what the classifier alone keeps within r.
    """
    detector = None if defense is None else defense.detector
    if detector is None or detector.around != threat.norm:
        return
    radius = float(detector.radius)  # type: ignore[arg-type]
    if radius >= threat.eps:
        wide, eps, half = (eps_text(value, threat.norm) for value in (radius, threat.eps, threat.eps / 2))
        warn(
            f"{type(detector).__name__} looks {wide} around each picture, and this attacker moves it by {eps} at most: "
            f"a radius of {half} promises as much against him and refuses fewer pictures."
        )


def _observed(subject: Subject, images: Tensor, labels: Tensor) -> Subject:
    """The subject with the traits that it declares and those that are observed."""
    subject.traits = subject.declared.joined(observed_traits(subject, images[:PROBED], labels[:PROBED]))
    return subject


def run(
    evaluation: Evaluation,
    *,
    out: Path | str | None = None,
    diagnostics: bool = True,
    workers: int | Pool | None = None,
    watch: Watch = silent,
) -> Result:
    """Make all attacks of a prepared evaluation; the arguments are those of `evaluate`."""
    subject = evaluation.subject
    folder = None if out is None else Path(out).with_name(Path(out).name + ".work")
    with evaluating(subject.model), pool_of(workers) as pool, folder_for(pool, folder) as work:
        parts, found = _parts(evaluation), Apart()
        doubts = diagnostics and evaluation.shard[0] == 0
        if pool.apart and work is not None:
            found = attack_apart(pool, parts, work, doubts, watch)
        results = {
            name: _attack_all(part, None if work is None else work / name, partial(watch, ATTACKING[name]))
            for name, part in parts.items()
        }
        result = results[""]
        result.bare, result.rival = results.get("bare"), results.get("rival")
        result.detection = subject.detector_facts()
        if doubts:
            if subject.defense is not None:
                rows = found.harmless
                result.detection["harmless"] = harmless(evaluation, watch) if rows is None else rows
            diagnose(evaluation, result, watch, found.probed)
    if out is not None and folder is not None:
        result.save(out)
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _parts(evaluation: Evaluation) -> dict[str, Evaluation]:
    """The evaluation itself, and what its subject is compared with, by the name of its folder."""
    parts = {"": evaluation}
    if evaluation.bare is not None:
        parts["bare"] = evaluation.bare
        if (other := rival(evaluation)) is not None:
            parts["rival"] = other
    return parts


def _dataset(
    subject: Subject, images: Tensor | Dataset, labels: Tensor | None, classes: Sequence[str] | None
) -> Dataset:
    """Images, labels and class names together."""
    if isinstance(images, Dataset):
        if labels is not None or classes is not None:
            raise UsageError("A Dataset holds its own labels and class names. Leave out labels and classes.")
        return images.relabelled(subject.classes, subject.name) if subject.classes else images
    if labels is None:
        raise UsageError("evaluate needs the labels of its images: alu.evaluate(defense, images, labels).")
    check_images(images, "evaluate")
    check_labels(labels, len(images), None, "evaluate")
    names = tuple(classes or subject.classes)
    if not names and len(images):
        names = tuple(map(str, range(subject.check(images, "images", None))))
    return Dataset(images, labels, names)


def _refuse_wrong_size(n: int, shard: tuple[int, int], block_size: int) -> None:
    if block_size < 1:
        raise UsageError(f"evaluate needs a block_size of at least 1; it was given {block_size}.")
    if not n:
        raise UsageError("There are no images to evaluate on: the data set is empty.")
    if not 0 <= shard[0] < shard[1]:
        raise UsageError(f"evaluate needs shard=(i, n) with i from 0 to n - 1; it was given {tuple(shard)}.")
    blocks = -(-n // block_size)
    if shard[1] > blocks:
        raise UsageError(
            f"{n} images make {blocks} blocks of {block_size}, too few for {shard[1]} shards. Use fewer shards."
        )


def _attack_all(evaluation: Evaluation, folder: Path | None, watch: Count) -> Result:
    """All attacks on this shard's blocks, as one result."""
    if folder is not None:
        open_folder(folder, evaluation.settings())
    attacks, numbers = evaluation.attacks, evaluation.blocks
    passes = len(attacks) + 1

    def step(blocks: int, done: int) -> None:
        watch(blocks * passes + done, len(numbers) * passes)

    result = blank_result(evaluation, [], Answers(), [blank_record(entry) for entry in attacks])
    for index, number in enumerate(numbers):
        result.extend(attack_block(evaluation, folder, number, partial(step, index)))
    ran = [entry for entry, record in zip(attacks, result.attacks, strict=True) if not record.failed]
    result.unmet = unmet(evaluation.subject.traits, ran)
    if failed := [record.name for record in result.attacks if record.failed]:
        result.unmet.append(f"{', '.join(failed)} could not run")
    return result


# What `help(alu.evaluate)` shows: every parameter by name.
evaluate.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [
        *inspect.signature(prepare).parameters.values(),
        *(inspect.signature(run).parameters[name] for name in ("out", "diagnostics", "workers", "watch")),
    ],
    return_annotation=Result,
)
