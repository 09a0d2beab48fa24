"""Result: one outcome per image and attack, with its origin. Every number is derived from it; no torch here."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from alu.errors import StorageError
from alu.evaluation import metrics
from alu.evaluation.verdicts import sentences, text, verdicts
from alu.storage import checksum, read_checked, write_json

FORMAT = 1
STATUSES = ("failed", "not run", "passed")
"""What can come of a diagnostic, the worst first."""
STORED = {"answers": "judged", "status": "verdict"}
"""Names in files of fields that have another name in code."""
IF_ANY = ("rival", "left_out")
"""Fields that files only have where there is something to say."""


@dataclass
class Answers:
    """What was answered for some of a result's images; lists run over `images`, positions in the result."""

    images: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)
    flagged: list[bool] = field(default_factory=list)
    score: list[float | None] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    """The bare classifier's answer to the same images; empty without a defence."""
    purified: list[int] = field(default_factory=list)
    """argmax Π: the purifier without detector and rule."""
    control: list[int] = field(default_factory=list)
    """The bare classifier's answer to the blurred images: the simplest purifier, for comparison."""
    rise_true: list[float] = field(default_factory=list)
    """Δ of the true class."""
    rise_other: list[float] = field(default_factory=list)
    """The highest Δ of another class."""
    steady: list[float] = field(default_factory=list)
    """Share of resubmissions that were answered correctly; only for random defences."""

    def extend(self, other: Answers, offset: int) -> None:
        """Add the answers for further images, whose positions begin at `offset`."""
        for item in fields(self):
            getattr(self, item.name).extend(getattr(other, item.name))
        self.images[len(self.images) - len(other.images) :] = [offset + image for image in other.images]


@dataclass
class AttackRecord:
    """One attack: what it was, what it cost, and what was answered to its images."""

    name: str
    knowledge: str
    """oblivious, surrogate or adaptive."""
    about: str
    settings: dict[str, Any]
    whole: bool
    """Whether every image was attacked (paper protocol) or only those that no earlier attack had broken."""
    answers: Answers = field(default_factory=Answers)
    distance: list[float] = field(default_factory=list)
    seconds: float = 0.0
    forwards: int = 0
    backwards: int = 0
    """Images that went forward and backward through the classifier."""
    notes: list[str] = field(default_factory=list)
    """An attack's own warnings, verbatim."""
    failed: str = ""
    """Why it could not run."""

    def extend(self, other: AttackRecord, offset: int) -> None:
        """Add the same attack on further images, whose positions begin at `offset`."""
        self.answers.extend(other.answers, offset)
        self.distance += other.distance
        self.whole = self.whole and other.whole
        self.seconds += other.seconds
        self.forwards += other.forwards
        self.backwards += other.backwards
        self.notes = list(dict.fromkeys([*self.notes, *other.notes]))
        self.failed = self.failed or other.failed


@dataclass
class Diagnostic:
    """One check of the evaluation itself: its status (one of STATUSES), and why."""

    id: str
    status: str
    says: str


@dataclass
class Result:
    """Every outcome of an evaluation, as plain values; accuracies and verdicts are computed from them.

    Parameters
    ----------
    subject, dataset, threat, suite, budget
        What was attacked, on which images and how: names, settings and hashes.
    labels, numbers, classes
        The true labels, the position of each image in its data set, and the class names.
    clean
        The answers to the clean images.
    attacks
        One record per attack: settings, cost, and the answers to its images.
    provenance
        Commit, versions, processor and seed.
    unmet
        Attacks that the subject's traits require and that did not run: the result is then incomplete.
    left_out
        Attacks of the suite that could only repeat others on this subject, and why.
    diagnostics, curves
        What the evaluation checked about itself, and accuracy against eps, steps and restarts.
    detection, examples
        The detector and the harmless changes; pictures of a few attacked images.
    shard
        [i, n]: the i-th of n parts, counted from 0.
    bare
        Of a defence: the result of its classifier without the defence, on the same images.
    rival
        Of a defence that refuses: the result of refusal by confidence, which answers as many of the clean images.

    Examples
    --------
    >>> result = alu.evaluate(classifier, images, labels, suite="oblivious", budget="quick", diagnostics=False)
    >>> result.robust_accuracy, result.row()["n"]
    (0.0, 4)
    """

    subject: dict[str, Any]
    dataset: dict[str, Any]
    threat: dict[str, Any]
    suite: str
    budget: str
    labels: list[int]
    numbers: list[int]
    classes: list[str]
    clean: Answers
    attacks: list[AttackRecord]
    provenance: dict[str, Any]
    unmet: list[str] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    curves: dict[str, Any] = field(default_factory=dict)
    detection: dict[str, Any] = field(default_factory=dict)
    examples: list[dict[str, Any]] = field(default_factory=list)
    shard: list[int] = field(default_factory=lambda: [0, 1])
    bare: Result | None = None
    rival: Result | None = None
    left_out: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every attack that the subject's traits require was run."""
        return not self.unmet

    @property
    def block_size(self) -> int | None:
        """How many images were attacked at once; None in results of older versions."""
        return self.dataset.get("block")

    def extend(self, other: Result) -> None:
        """Add the outcomes of the same evaluation on further images."""
        offset = len(self.labels)
        self.labels += other.labels
        self.numbers += other.numbers
        self.clean.extend(other.clean, offset)
        for record, further in zip(self.attacks, other.attacks, strict=True):
            record.extend(further, offset)
        self.examples += [{**example, "image": offset + example["image"]} for example in other.examples]
        if other.curves.get("denial"):
            rows = self.curves.get("denial") or [{**row, "right": 0, "n": 0} for row in other.curves["denial"]]
            pairs = zip(rows, other.curves["denial"], strict=True)
            self.curves["denial"] = [
                {**row, **{key: row[key] + more[key] for key in ("right", "n")}} for row, more in pairs
            ]
        if other.curves.get("bounds"):
            moved = [{**row, "image": offset + row["image"]} for row in other.curves["bounds"]]
            self.curves["bounds"] = [*self.curves.get("bounds", []), *moved]

    @property
    def clean_accuracy(self) -> float:
        """Share of clean images that are answered correctly."""
        return metrics.clean(self).value

    @property
    def robust_accuracy(self) -> float:
        """Standard protocol: share of images answered correctly when clean and under every attack."""
        return metrics.robust(self).value

    @property
    def resisted(self) -> float:
        """Standard protocol: share of images answered correctly or rejected, when clean and under every attack."""
        return metrics.resisted(self).value

    @property
    def verdict(self) -> str:
        """Whether the defence helps compared with the bare classifier: a sentence for each attacker, the one who
        knows most first; empty for a bare model. `alu.evaluation.verdicts.verdicts` has the figures."""
        return "\n".join(sentences(self))

    def row(self) -> dict[str, str | int | float | bool | None]:
        """One flat line to share, or to put into a table beside others; figures are fractions.

        `verdict` is "helps", "harms" or "unclear" against an attacker who knows the defence, and None where that is
        not known; `bare_robust` is the robust accuracy of the classifier without the defence.
        """
        adaptive = next((verdict for verdict in verdicts(self) if verdict.level == "adaptive"), None)
        return {
            "name": self.subject.get("name"), "dataset": self.dataset.get("name"), "split": self.dataset.get("split"),
            "n": len(self.labels), "clean": self.clean_accuracy, "robust": self.robust_accuracy,
            "resisted": self.resisted, "bare_robust": None if adaptive is None else adaptive.bare.value,
            "verdict": None if adaptive is None else adaptive.verdict, "norm": self.threat.get("norm"),
            "eps": self.threat.get("eps"), "suite": self.suite, "budget": self.budget, "complete": self.complete,
            "shard": f"{self.shard[0] + 1}/{self.shard[1]}", "seed": self.provenance.get("seed"),
            "commit": self.provenance.get("commit"), "alu": self.provenance.get("alu"),
        }  # fmt: skip

    def __str__(self) -> str:
        return text(self)

    def as_json(self) -> dict[str, Any]:
        """Plain values with their checksum, as a file holds them."""
        # Through JSON and back, as a reader will have it: tuples are lists there, and every key is a string.
        plain: dict[str, Any] = json.loads(json.dumps({"format": FORMAT, **to_plain(self)}, allow_nan=False))
        return {**plain, "checksum": checksum(plain)}

    def save(self, path: Path | str) -> None:
        """Write the result as JSON; the file appears whole or not at all."""
        write_json(Path(path), self.as_json())

    @staticmethod
    def load(path: Path | str) -> Result:
        """Read a result; a file that was edited, cut short or written by something else is refused."""
        path, what = Path(path), f"a result of alu evaluate (format {FORMAT})"
        advice = "Evaluate again; tables and pages are made from a result, never by editing one."
        plain = read_checked(path, what, advice)
        if "experiment" in plain:
            raise StorageError(
                f"{path} is a result of alu reproduce; its page is {path.with_name('paper.html')}. Only results of alu "
                "evaluate can be read here."
            )
        if plain.pop("format", None) != FORMAT:
            raise StorageError(f"{path} is not {what}. Evaluate again.")
        try:
            return from_plain(plain)
        except (KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"{path} is damaged ({type(error).__name__}: {error}). Evaluate again.") from error


def to_plain(value: Any) -> Any:
    """Results and records as dicts, with the names that files have."""
    if is_dataclass(value) and not isinstance(value, type):
        named = {item.name: getattr(value, item.name) for item in fields(value)}
        return {STORED.get(name, name): to_plain(one) for name, one in named.items() if one or name not in IF_ANY}
    return [to_plain(item) for item in value] if isinstance(value, list) else value


def from_plain(plain: dict[str, Any]) -> Result:
    """A result from its plain values."""
    plain = dict(plain)
    plain["clean"] = Answers(**plain["clean"])
    records = map(_renamed, plain["attacks"])
    plain["attacks"] = [AttackRecord(**{**record, "answers": Answers(**record["answers"])}) for record in records]
    plain["diagnostics"] = [Diagnostic(**_renamed(item)) for item in plain["diagnostics"]]
    for name in ("bare", "rival"):
        if plain.get(name) is not None:  # results of older versions have none
            plain[name] = from_plain(plain[name])
    return Result(**plain)


def _renamed(plain: dict[str, Any]) -> dict[str, Any]:
    names = {stored: name for name, stored in STORED.items()}
    return {names.get(name, name): value for name, value in plain.items()}
