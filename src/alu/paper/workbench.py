"""Workbench: the images, networks, defences and attacked images that cells share, each made once."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from alu import data, models
from alu.attacks import APGDCE, PGD, AutoAttack, CWLinf
from alu.attacks.adaptive.base import DRAWS
from alu.attacks.adaptive.view import smoothly_purified
from alu.attacks.base import Attack
from alu.data.dataset import Dataset
from alu.decision import Decision, Evidence, Findings
from alu.defense import Defense, batched_logits
from alu.detectors import LogitShift
from alu.errors import StorageError
from alu.evaluation import metrics
from alu.evaluation.evaluate import evaluate
from alu.evaluation.networks import other_networks
from alu.evaluation.result import Result
from alu.evaluation.subject import Subject
from alu.evaluation.suite import Budget
from alu.loading import GUIDED, READINGS, load_purifier
from alu.models.cards import bundled_name
from alu.paper.base import EPS, Sizes, System
from alu.paper.store import ALU_READINGS, Column, Measured, Reading, digits
from alu.progress import Watch, silent
from alu.purifiers import Purifier
from alu.purifiers.base import Purification
from alu.threat import ThreatModel

T = TypeVar("T")


@dataclass(frozen=True)
class ImageSet:
    """Images with their labels; the name tells them from all other sets."""

    name: str
    images: Tensor
    labels: Tensor
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def as_dataset(self) -> Dataset:
        """The same as the evaluator wants it."""
        return Dataset(self.images.cpu(), self.labels.cpu(), self.classes, self.name, "test")


class Workbench:
    """Everything that the cells of an experiment are measured with.

    `sizes` says how much is measured; `watch(what, done, total)` is called as work goes on.
    """

    def __init__(
        self,
        sizes: Sizes,
        seed: int = 0,
        device: torch.device | str = "cpu",
        root: Path | None = None,
        watch: Watch = silent,
    ) -> None:
        self.sizes, self.seed, self.device, self.root, self.watch = sizes, seed, device, root, watch
        self.work: Path | None = None
        """A folder of the cell that is being measured, for what is too long to be lost."""
        self.shared: Path | None = None
        """A folder of the whole run, for networks that several cells train once."""
        self._kept: dict[Any, Any] = {}

    def once(self, key: Any, build: Callable[[], T]) -> T:
        """What `build` returns, called the first time only."""
        if key not in self._kept:
            self._kept[key] = build()
        kept: T = self._kept[key]
        return kept

    def images(self, dataset: str, split: str, n: int) -> ImageSet:
        """`n` images of a data set, those of CIFAR-10 from the bundled sample as far as it goes."""

        def drawn() -> Dataset:
            if dataset == "cifar10" and split in ("test", "calibration"):
                sample = data.sample(split)
                if n <= len(sample):
                    return sample.draw(n, self.seed)
            whole = data.open_dataset(dataset, split, root=None if dataset == "cifar10" else self.root)
            return whole.draw(min(n, len(whole)), self.seed)

        name = f"{dataset}/{split}/{n}"
        chosen = self.once(("images", name), drawn)
        return ImageSet(name, chosen.images.to(self.device), chosen.labels.to(self.device), chosen.classes)

    def test_images(self, size: str = "n") -> ImageSet:
        """So many CIFAR-10 test images as the size of this name says."""
        return self.images("cifar10", "test", self.sizes[size])

    def classifier(self, name: str) -> nn.Module:
        """A bundled network."""
        return self.once(("model", name), lambda: models.load(name).to(self.device))

    def logits(self, classifier: str, images: ImageSet) -> Tensor:
        """The bare classifier's logits."""
        build = partial(batched_logits, self.classifier(classifier), images.images)
        return self.once(("logits", classifier, images.name), build)

    def attack(self, name: str) -> Any:
        """One of the paper's attacks."""
        same: dict[str, Any] = {"eps": EPS, "seed": self.seed}
        if name == "autoattack":
            return AutoAttack(**same)
        if name == "apgd-20":
            return APGDCE(steps=20, draws=DRAWS["quick"], **same)
        return {"pgd-20": PGD, "cw-linf": CWLinf}[name](steps=20, **same)

    def attacked(
        self, name: str, images: ImageSet, attack: Any, model: Callable[[Tensor], Any], labels: Tensor | None = None
    ) -> ImageSet:
        """What an attack makes of images; `name` tells the attack and its target from others."""
        name = f"{images.name}/{name}"

        def search() -> Tensor:
            watched = {"watch": partial(self.watch, f"Attacking {name}")} if isinstance(attack, Attack) else {}
            adversarial: Tensor = attack(model, images.images, images.labels if labels is None else labels, **watched)
            return adversarial

        return ImageSet(name, self.once(("attacked", name), search), images.labels, images.classes)

    def attacked_as(self, column: Column, system: System, images: ImageSet) -> ImageSet:
        """The images of a column: clean, or attacked on the classifier or through encoder and decoder."""
        if column is Column.CLEAN:
            return images
        model = self.surrogate(system) if column.through else self.classifier(system.classifier)
        return self.attacked(f"{column} of {system.classifier}", images, self.attack(column.attack), model)

    def _shared(self, system: System) -> str:
        """What a purification depends on: the purifier, and where it follows a classifier's gradient that too."""
        return f"{system.purifier} of {system.classifier}" if system.purifier in GUIDED else system.purifier

    def purifier(self, system: System) -> Purifier:
        """The system's purifier."""

        def build() -> Purifier:
            network = self.classifier(system.classifier) if system.purifier in GUIDED else None
            return load_purifier(system.purifier, classifier=network).to(self.device)

        return self.once(("purifier", self._shared(system)), build)

    def batches(self, what: str, images: ImageSet) -> Iterator[slice]:
        """The images in batches of 100, as slices; `watch` is called with how many are done."""
        for start in range(0, len(images), 100):
            self.watch(what, start, len(images))
            yield slice(start, start + 100)
        self.watch(what, len(images), len(images))

    @torch.no_grad()
    def purified(self, system: System, images: ImageSet) -> list[Purification]:
        """What the purifier makes of each batch, and its reconstruction where it has one."""

        def run() -> list[Purification]:
            purifier, what = self.purifier(system), f"Purifying {images.name} ({self._shared(system)})"
            parts = (images.images[part] for part in self.batches(what, images))
            return [purifier.purify(part, reconstruct=purifier.has_reconstruction) for part in parts]

        return self.once(("purified", self._shared(system), images.name), run)

    def defense(self, system: System, reading: Reading) -> Defense:
        """The deployed defence, calibrated on held-out clean images; "purified" has no detector."""

        def build() -> Defense:
            network, purifier = self.classifier(system.classifier), self.purifier(system)
            if reading is Reading.PURIFIED:
                return Defense(network, purifier, rule="purified")
            defense = Defense(network, purifier, LogitShift(), *READINGS[reading])
            held_out = self.images(system.dataset, "calibration", self.sizes["calibration"])
            return defense.calibrate_on(self.evidence(defense, system, held_out))

        return self.once(("defense", system, reading), build)

    def target(self, system: System, reading: Reading) -> nn.Module:
        """What an attacker meets: the bare classifier, or the deployed defence."""
        return self.classifier(system.classifier) if reading is Reading.BARE else self.defense(system, reading)

    def surrogate(self, system: System) -> Callable[[Tensor], Tensor]:
        """The classifier behind encoder and decoder, or behind a filter's smooth stand-in."""
        return smoothly_purified(self.defense(system, Reading.PURIFIED))

    @torch.no_grad()
    def evidence(self, defense: Defense, system: System, images: ImageSet) -> Evidence:
        """What the defence looks at; all readings of a system share one purification."""
        parts = zip(torch.split(images.images, 100), self.purified(system, images), strict=True)
        return Evidence.join([defense.evidence(part, purification) for part, purification in parts])

    def decision(self, system: System, reading: Reading, images: ImageSet) -> Decision:
        """What is deployed answers."""
        defense = self.defense(system, reading)
        return defense.judge(self.evidence(defense, system, images))

    def purified_answers(self, system: System, images: ImageSet) -> Measured:
        """Right or not for each image: the bare classifier and the purified answer, of a method that has no other; a
        detector would have to be calibrated for one."""
        evidence = self.evidence(self.defense(system, Reading.PURIFIED), system, images)
        bare, purified = (logits.argmax(1) == images.labels for logits in (evidence.pre_logits, evidence.post_logits))
        return {"n": len(images), "bare": digits(bare), "purified": digits(purified)}

    def answers(self, system: System, images: ImageSet) -> Measured:
        """Right or not for each image: the bare classifier, the purified answer, and `rule_answers` of each reading."""
        measured: Measured = {"n": len(images)}
        readings = ALU_READINGS if self.purifier(system).has_reconstruction else (Reading.INPUT,)
        for reading in readings:
            defense = self.defense(system, reading)
            evidence = self.evidence(defense, system, images)
            if reading is Reading.INPUT:
                measured["bare"] = digits(evidence.pre_logits.argmax(1) == images.labels)
                measured["purified"] = digits(evidence.post_logits.argmax(1) == images.labels)
            measured[reading] = rule_answers(defense, evidence, images.labels)
        return measured

    def union(self, model: nn.Module, images: ImageSet, budget: Budget = "quick") -> Measured:
        """Right (1), wrong (0) or rejected (2) for each image: clean, and after all attacks of each knowledge."""
        try:
            result = self._evaluated(model, images, budget)
        except StorageError:  # what an earlier version of the code left half-way is of no use to this one
            if self.work is None or not self.work.exists():
                raise
            shutil.rmtree(self.work)
            result = self._evaluated(model, images, budget)
        measured: Measured = {"n": len(images), "budget": budget, "unmet": result.unmet}
        measured["failed"] = {record.name: record.failed for record in result.attacks if record.failed}
        measured["clean"] = _in_order(metrics.outcomes(result.clean, result.labels))
        for level, known in metrics.LEVELS.items():
            measured[level] = _in_order(metrics.worst(result, known))
        draws = metrics.right_draws(result)
        if draws is not None:  # of a random defence the digits are those of its worst draw
            measured["right draws"] = {"clean": draws[0], "adaptive": draws[1]}
        others = other_networks(Subject(model), images.as_dataset())
        measured["other networks"] = [str(bundled_name(other)) for other in others]
        measured["attacks"] = {record.name: metrics.broken(result, record) for record in result.attacks}
        return measured

    def _evaluated(self, model: nn.Module, images: ImageSet, budget: Budget) -> Result:
        """Goes on from the cell's folder, where an interrupted run left one."""
        return evaluate(
            model, images.as_dataset(), ThreatModel("Linf", EPS), "adaptive", budget, seed=self.seed,
            diagnostics=False, bare=False,  # the bare classifier has cells of its own
            out=None if self.work is None else self.work / "union.json",
            watch=lambda what, done, total: self.watch(f"{what} {images.name}", done, total),
        )  # fmt: skip


def rule_answers(defense: Defense, evidence: Evidence, labels: Tensor) -> dict[str, str]:
    """Right or not for each image: deployed, and if everything were flagged; and the flags themselves."""
    decision = defense.judge(evidence)
    everything = torch.ones_like(decision.flagged)
    findings = Findings.of(everything, everything, ~everything, ~everything)
    all_flagged = defense.rule_.logits(evidence, findings).argmax(1)
    return {
        "alu": digits(decision.label == labels),
        "all flagged": digits(all_flagged == labels),
        "flagged": digits(decision.flagged),
    }


def _in_order(outcome: dict[int, int]) -> str:
    return "".join(str(outcome[image]) for image in sorted(outcome))
