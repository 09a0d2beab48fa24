"""evaluate: attack a defence as its strongest opponent would, and return every outcome."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from torch import Tensor

from alu.check import check_images, check_labels
from alu.data.dataset import Dataset
from alu.errors import UsageError, check_choice
from alu.evaluation.cascade import Block, Evaluation, Work, attack_block, blank_record
from alu.evaluation.diagnostics import diagnose
from alu.evaluation.harmless import harmless_rows
from alu.evaluation.probes import observed_traits, refuse_unnormalised
from alu.evaluation.result import Answers, Result
from alu.evaluation.subject import Subject
from alu.evaluation.suite import BUDGETS, SUITES, Budget, Conditions, Entry, Suite, entries, other_networks, unmet
from alu.modes import evaluating
from alu.provenance import provenance
from alu.threat import ThreatModel

Watch = Callable[[str, int, int], None]
"""Called with what is being done, how much is done, and how much there is."""
GUIDES = 200
"""How many of the first images serve as guides to attacks that imitate another class."""
DIAGNOSED = 32
"""How many images the diagnostics use."""
PROBED = 8
"""How many images show a subject's traits."""
RUN = ("out", "diagnostics", "watch")
"""Arguments of `evaluate` that are not needed to prepare it."""


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
    watch: Watch = lambda *_: None,
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
        Whether a defence's classifier is also attacked without the defence; otherwise it is not known whether the
        defence helps against an attacker who knows it.
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
    return run(prepared, out=out, diagnostics=diagnostics, watch=watch)


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
    check_images(pixels, "evaluate")
    count = subject.check(pixels, dataset.name, dataset.classes)
    with evaluating(subject.model, subject.classifier):
        refuse_unnormalised(subject.logits, pixels, truth)
    conditions = Conditions(
        threat or ThreatModel(), suite, budget, seed, block_size, pixels[:GUIDES], truth[:GUIDES],
        other_networks(subject, dataset), count,
    )  # fmt: skip
    origin = provenance(seed)

    def attacks_on(subject: Subject, **more: Any) -> Evaluation:
        """Its evaluation, with the attacks that its traits require; traits that are not declared are observed."""
        subject.traits = subject.declared.joined(observed_traits(subject, pixels[:PROBED], truth[:PROBED]))
        chosen = tuple(entries(subject, conditions))
        return Evaluation(subject, dataset, pixels, truth, conditions, chosen, origin, shard, **more)

    without = attacks_on(Subject(subject.classifier)) if bare and subject.defense is not None else None
    return attacks_on(subject, extra=tuple(extra), bare=without)


def run(
    evaluation: Evaluation,
    *,
    out: Path | str | None = None,
    diagnostics: bool = True,
    watch: Watch = lambda *_: None,
) -> Result:
    """Make all attacks of a prepared evaluation; the arguments are those of `evaluate`."""
    folder = None if out is None else Path(out).with_name(Path(out).name + ".work")
    work = Work(folder, evaluation.settings())
    result = _attack_all(evaluation, work, partial(watch, "Attacking"))
    if evaluation.bare is not None:
        inner = Work(None if folder is None else folder / "bare", evaluation.bare.settings())
        result.bare = _attack_all(evaluation.bare, inner, partial(watch, "Attacking the bare classifier"))
    result.detection = evaluation.subject.detector_facts()
    if diagnostics and evaluation.shard[0] == 0:
        _check(evaluation, result, watch)
    if out is not None:
        result.save(out)
        work.remove()
    return result


def _dataset(
    subject: Subject, images: Tensor | Dataset, labels: Tensor | None, classes: Sequence[str] | None
) -> Dataset:
    """Images, labels and class names together."""
    if isinstance(images, Dataset):
        if labels is not None or classes is not None:
            raise UsageError("evaluate takes labels and class names from the Dataset. Give it neither of them.")
        return images
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
        raise UsageError(f"A shard is i/n with i from 1 to n; this is {shard[0] + 1}/{shard[1]}.")
    blocks = (n + block_size - 1) // block_size
    if shard[1] > blocks:
        raise UsageError(f"{n} images are {blocks} blocks of {block_size}, too few for {shard[1]} shards. Use fewer.")


def _attack_all(evaluation: Evaluation, work: Work, watch: Callable[[int, int], None]) -> Result:
    """All attacks on this shard's blocks, as one result."""
    numbers, passes = evaluation.blocks, len(evaluation.attacks) + 1

    def step(blocks: int, done: int) -> None:
        watch(blocks * passes + done, len(numbers) * passes)

    blocks = [attack_block(evaluation, work, number, partial(step, index)) for index, number in enumerate(numbers)]
    return _result(evaluation, blocks)


def _result(evaluation: Evaluation, blocks: list[Block]) -> Result:
    """One result from the blocks; positions become those among the images that were attacked."""
    kept = [position for block in blocks for position in evaluation.positions(block.number)]
    place = {position: index for index, position in enumerate(kept)}
    clean = Answers()
    records = [blank_record(entry) for entry in evaluation.attacks]
    for block in blocks:
        assert block.clean is not None
        clean.extend(block.clean)
        for record, part in zip(records, block.attacks, strict=True):
            record.answers.extend(part.answers)
            record.distance += part.distance
            record.seconds += part.seconds
            record.forwards += part.forwards
            record.backwards += part.backwards
            record.notes = list(dict.fromkeys([*record.notes, *part.notes]))
            record.failed = record.failed or part.failed
    for answers in (clean, *(record.answers for record in records)):
        answers.images = [place[position] for position in answers.images]
    ran = [entry for entry, record in zip(evaluation.attacks, records, strict=True) if not record.failed]
    failed = [record.name for record in records if record.failed]
    missing = unmet(evaluation.subject.traits, ran) + ([f"{', '.join(failed)} could not run"] if failed else [])
    dataset, conditions = evaluation.dataset, evaluation.conditions
    return Result(
        subject=evaluation.subject.as_json(),
        dataset={
            "name": dataset.name, "split": dataset.split, "n": len(dataset), "sha256": evaluation.fingerprint,
            "block": conditions.block_size,
        },
        threat={"norm": conditions.threat.norm, "eps": conditions.threat.eps},
        suite=conditions.suite,
        budget=conditions.budget,
        labels=[int(evaluation.labels[position]) for position in kept],
        numbers=[int(dataset.indices[position]) for position in kept],
        classes=list(dataset.classes),
        clean=clean,
        attacks=records,
        provenance=dict(evaluation.provenance),
        unmet=missing,
        examples=[example for block in blocks for example in block.examples],
        shard=list(evaluation.shard),
    )  # fmt: skip


def _check(evaluation: Evaluation, result: Result, watch: Watch) -> None:
    """Add the diagnostics and, for a defence, what harmless changes cost."""
    subject, conditions = evaluation.subject, evaluation.conditions
    if subject.defense is not None:
        some = slice(0, 2 * conditions.block_size)
        result.detection["harmless"] = harmless_rows(
            subject.defense, evaluation.images[some], evaluation.labels[some], watch=partial(watch, "Harmless changes")
        )
    few = evaluation.images[:DIAGNOSED], evaluation.labels[:DIAGNOSED]
    own = [entry.attack for entry in evaluation.extra]
    result.diagnostics, result.curves = diagnose(subject, *few, conditions.threat, conditions.seed, result, watch, own)


def _signature() -> inspect.Signature:
    """What `help(alu.evaluate)` shows: every parameter by name."""
    own = [parameter for name, parameter in inspect.signature(evaluate).parameters.items() if name in RUN]
    return inspect.Signature([*inspect.signature(prepare).parameters.values(), *own], return_annotation=Result)


evaluate.__signature__ = _signature()  # type: ignore[attr-defined]
