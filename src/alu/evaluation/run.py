"""evaluate: attack a defence as its strongest opponent would, and return every outcome."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alu import models
from alu.check import check_images, check_labels
from alu.data.dataset import Dataset
from alu.errors import UsageError
from alu.evaluation.assembly import assembled
from alu.evaluation.cascade import Evaluation, attacked_block, settings_of
from alu.evaluation.detection import detector_facts
from alu.evaluation.diagnostics import diagnose
from alu.evaluation.harmless import harmless_rows
from alu.evaluation.looks import seen_traits
from alu.evaluation.normalisation import refuse_unnormalised
from alu.evaluation.result import Result
from alu.evaluation.subject import Subject, device_of
from alu.evaluation.suite import Entry, Plan, entries
from alu.evaluation.work import Work
from alu.models.cards import weight_hash
from alu.modes import evaluating
from alu.provenance import provenance
from alu.threat import ThreatModel

Watch = Callable[[str, int, int], None]
GUIDES = 200
"""How many of the data set's first images serve as guides to attacks that imitate another class."""
PROBED = 32
"""How many images the diagnostics look at."""
TOLD_BY = 8
"""How many images tell what traits a subject has."""


def evaluate(
    defense: Any,
    dataset: Dataset,
    threat: ThreatModel | None = None,
    suite: str = "adaptive",
    budget: str = "standard",
    *,
    seed: int = 0,
    out: Path | str | None = None,
    shard: tuple[int, int] = (0, 1),
    block_size: int = 50,
    name: str | None = None,
    extra: tuple[Entry, ...] = (),
    diagnostics: bool = True,
    bare: bool = True,
    watch: Watch = lambda *_: None,
) -> Result:
    """Attack a calibrated defence, or any model, on every image of a data set and return all outcomes.

    out: where the result goes; beside it lies, until it is done, the folder that an interrupted evaluation goes on
    from. shard: (i, n), the i-th of n parts counted from 0; `alu.evaluation.merging.merge` joins them. extra: further
    attacks, run after the suite's own. bare: attack a defence's classifier too, by attacks of its own; without that
    nobody can tell whether the defence helps against an attacker who knows it.
    """
    subject = Subject(defense, name)
    _refuse_wrong(dataset, shard, block_size)
    device = device_of(subject.model)
    images, labels = dataset.images.to(device), dataset.labels.to(device)
    classes = _checked(subject, images, labels)
    others = other_networks(subject, dataset)
    plan = Plan(
        threat or ThreatModel(), suite, budget, seed, block_size, images[:GUIDES], labels[:GUIDES], others, classes
    )
    folder = None if out is None else Path(out).with_name(Path(out).name + ".work")
    run = Run(dataset, images, labels, plan, shard)
    ready = run.prepared(subject, folder, extra)
    result = run.attacked(ready, partial(watch, "Attacking"))
    if bare and subject.defense is not None:
        inside = run.prepared(Subject(subject.classifier), None if folder is None else folder / "bare")
        result.bare = run.attacked(inside, partial(watch, "Attacking the bare classifier"))
    result.detection = detector_facts(subject)
    if diagnostics and shard[0] == 0:
        if subject.defense is not None:
            some = slice(0, 2 * block_size)
            result.detection["harmless"] = harmless_rows(
                subject.defense, images[some], labels[some], watch=partial(watch, "Harmless changes")
            )
        result.diagnostics, result.curves = diagnose(
            subject, images[:PROBED], labels[:PROBED], plan.threat, seed, result, watch,
            [entry.attack for entry in extra],
        )  # fmt: skip
    if out is not None:
        result.save(out)
        ready.work.remove()
    return result


@dataclass(frozen=True)
class Run:
    """The images, the plan and the part of them that one call of `evaluate` works on, for whatever is attacked."""

    dataset: Dataset
    images: Tensor
    labels: Tensor
    plan: Plan
    shard: tuple[int, int]

    def prepared(self, subject: Subject, folder: Path | None, extra: tuple[Entry, ...] = ()) -> Evaluation:
        """The attacks on a subject, and the folder they go on from."""
        plan = self.plan
        few = self.images[:TOLD_BY], self.labels[:TOLD_BY]
        subject.traits = subject.declared.joined(seen_traits(subject, *few))
        chosen = [*entries(subject, plan), *extra]
        origin = provenance(plan.seed)
        facts = {
            "subject": subject.as_json(), "n": len(self.images), "images": fingerprint(self.images, self.labels),
            "threat model": {**asdict(plan.threat), "bounds": list(plan.threat.bounds)},
            "suite": plan.suite, "budget": plan.budget, "seed": plan.seed, "shard": list(self.shard),
            "block size": plan.batch_size, "attacks": {entry.name: settings_of(entry.attack) for entry in chosen},
            "version": {key: value for key, value in origin.items() if key in ("alu", "commit", "torch")},
        }  # fmt: skip
        numbers = [int(number) for number in self.dataset.indices]
        work = Work(folder, facts)
        return Evaluation(subject, self.images, self.labels, numbers, chosen, plan.threat, work, plan.batch_size)

    def attacked(self, ready: Evaluation, watch: Callable[[int, int], None]) -> Result:
        """All attacks on this shard's blocks, as one result."""
        count = (len(self.images) + ready.size - 1) // ready.size
        mine = [block for block in range(count) if block % self.shard[1] == self.shard[0]]
        units = len(ready.entries) + 1

        def step(begun: int, done: int) -> None:
            watch(begun * units + done, len(mine) * units)

        blocks = [attacked_block(ready, number, partial(step, index)) for index, number in enumerate(mine)]
        return assembled(ready, blocks, self.dataset, self.plan, fingerprint(self.images, self.labels), self.shard)


def _refuse_wrong(dataset: Dataset, shard: tuple[int, int], block_size: int) -> None:
    if block_size < 1:
        raise UsageError(f"evaluate needs a block_size of at least 1; it was given {block_size}.")
    if not len(dataset):
        raise UsageError("There is nothing to evaluate on: the data set is empty.")
    if not 0 <= shard[0] < shard[1]:
        raise UsageError(f"A shard is i/n with i from 1 to n; this is {shard[0] + 1}/{shard[1]}.")
    blocks = (len(dataset) + block_size - 1) // block_size
    if shard[1] > blocks:
        raise UsageError(
            f"{len(dataset)} images are {blocks} blocks of {block_size}, too few for {shard[1]} shards. Use fewer."
        )


def _checked(subject: Subject, images: Tensor, labels: Tensor) -> int:
    """How many classes the subject knows, once images, labels and classifier fit together."""
    check_images(images, "evaluate")
    with torch.no_grad(), evaluating(subject.model, subject.classifier):
        classes = subject.logits(images[:2]).shape[1]
    check_labels(labels, len(images), classes, "evaluate")
    with evaluating(subject.model, subject.classifier):
        refuse_unnormalised(subject.logits, images, labels)
    return classes


def other_networks(subject: Subject, dataset: Dataset) -> tuple[torch.nn.Module, ...]:
    """A bundled classifier for the same classes and size that is not the one under attack, where there is one."""
    own = weight_hash(subject.classifier) if isinstance(subject.classifier, torch.nn.Module) else ""
    for name in models.names("classifier"):
        card = models.card(name)
        if not name.endswith(("-standard", "-unified")):  # others are robust, or read no images
            continue
        if card.classes == dataset.classes and card.architecture.get("size", 32) == max(dataset.shape[1:]):
            other = models.load(name).to(device_of(subject.model))
            if weight_hash(other) != own:
                return (other,)
    return ()


def fingerprint(images: Tensor, labels: Tensor) -> str:
    """SHA-256 of the images and labels themselves."""
    digest = hashlib.sha256(images.detach().cpu().contiguous().numpy().tobytes())
    digest.update(labels.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
