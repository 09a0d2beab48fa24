"""Result: one outcome per image and attack, with its origin. Every number is derived from it; no torch here."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from alu.errors import StorageError
from alu.storage import read_json, write_json

FORMAT = 1


@dataclass
class Judged:
    """What was answered for some of a result's images; lists run over `images`, positions in the result."""

    images: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)
    flagged: list[bool] = field(default_factory=list)
    score: list[float | None] = field(default_factory=list)
    bare: list[int] = field(default_factory=list)
    """The answer of the classifier alone to the same images; empty where there is none."""
    purified: list[int] = field(default_factory=list)
    """argmax Π: the purifier without detector and rule."""
    control: list[int] = field(default_factory=list)
    """The answer to the blurred images: a purifier that knows nothing."""
    rise_true: list[float] = field(default_factory=list)
    """Δ of the true class."""
    rise_other: list[float] = field(default_factory=list)
    """The highest Δ of another class."""
    steady: list[float] = field(default_factory=list)
    """Share of resubmissions that were answered rightly; only for random defences."""

    def extend(self, other: Judged) -> None:
        """Add the answers for further images."""
        for item in fields(self):
            getattr(self, item.name).extend(getattr(other, item.name))


@dataclass
class AttackRecord:
    """One attack: what it was, what it cost, and what was answered to its images."""

    name: str
    knowledge: str
    """oblivious, surrogate or adaptive."""
    about: str
    settings: dict[str, Any]
    whole: bool
    """Whether every image was attacked (paper protocol) or only those still standing."""
    judged: Judged = field(default_factory=Judged)
    distance: list[float] = field(default_factory=list)
    seconds: float = 0.0
    forwards: int = 0
    backwards: int = 0
    """Images that went forward and backward through the classifier."""
    notes: list[str] = field(default_factory=list)
    """An attack's own warnings, verbatim."""
    failed: str = ""
    """Why it could not run."""


@dataclass
class Diagnostic:
    """One check of the evaluation itself: "passed", "failed", or "not run", and why."""

    id: str
    verdict: str
    says: str


@dataclass
class Result:
    """Everything an evaluation found, as plain values."""

    subject: dict[str, Any]
    """What was attacked: name, parts, rule, reference, traits."""
    dataset: dict[str, Any]
    threat: dict[str, Any]
    suite: str
    budget: str
    labels: list[int]
    numbers: list[int]
    """Where each image stands in the data set."""
    classes: list[str]
    clean: Judged
    attacks: list[AttackRecord]
    provenance: dict[str, Any]
    unmet: list[str] = field(default_factory=list)
    """Obligations of the subject's traits that no attack met."""
    diagnostics: list[Diagnostic] = field(default_factory=list)
    curves: dict[str, Any] = field(default_factory=dict)
    detection: dict[str, Any] = field(default_factory=dict)
    examples: list[dict[str, Any]] = field(default_factory=list)
    shard: list[int] = field(default_factory=lambda: [0, 1])
    bare: Result | None = None
    """Of a defence: the bare classifier under its own attacks, on the same images."""

    @property
    def complete(self) -> bool:
        """Whether every obligation was met."""
        return not self.unmet

    # The metrics know results, not the other way round: so they are imported where they are used.

    @property
    def clean_accuracy(self) -> float:
        """Share of clean images answered, and rightly."""
        from alu.evaluation.metrics import clean

        return clean(self).value

    @property
    def robust_accuracy(self) -> float:
        """Standard protocol: share answered rightly under the worst attack and clean."""
        from alu.evaluation.metrics import robust

        return robust(self).value

    @property
    def resisted(self) -> float:
        """Standard protocol: share answered rightly or rejected under the worst attack, and not wrong clean."""
        from alu.evaluation.metrics import resisted

        return resisted(self).value

    @property
    def verdict(self) -> str:
        """Whether the defence helps or harms beside the bare classifier: a sentence for each attacker, the one who
        knows most first; empty for a bare model. `alu.evaluation.verdicts.verdicts` has the figures."""
        from alu.evaluation.verdicts import sentences

        return "\n".join(sentences(self))

    def __str__(self) -> str:
        from alu.evaluation.printed import text

        return text(self)

    def as_json(self) -> dict[str, Any]:
        """Plain values, with a checksum over them."""
        # Through JSON and back, as a reader will have it: tuples are lists there, and every key is a string.
        plain = json.loads(json.dumps({"format": FORMAT, **asdict(self)}, allow_nan=False))
        return {**plain, "checksum": checksum(plain)}

    def save(self, path: Path | str) -> None:
        """Write the result as JSON; it appears whole or not at all."""
        write_json(Path(path), self.as_json())

    @staticmethod
    def load(path: Path | str) -> Result:
        """Read a result; one that was edited, cut short or written otherwise is refused."""
        path = Path(path)
        plain = read_json(path)
        if not isinstance(plain, dict) or "checksum" not in plain or plain.get("format") != FORMAT:
            if isinstance(plain, dict) and "experiment" in plain:
                raise StorageError(
                    f"{path} is a result of alu reproduce, whose page is {path.with_name('paper.html')}; alu report "
                    "reads those of alu evaluate."
                )
            raise StorageError(f"{path} is not a result of alu evaluate (format {FORMAT}). Evaluate again.")
        stated = plain.pop("checksum")
        try:
            intact = stated == checksum(plain)
        except ValueError:  # Infinity and NaN, which no result holds
            intact = False
        if not intact:
            raise StorageError(
                f"{path} was changed after it was written: its checksum does not fit. Evaluate again; tables and pages "
                "are made from a result, never by editing one."
            )
        plain.pop("format")
        try:
            return from_plain(plain)
        except (KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"{path} is damaged ({type(error).__name__}: {error}). Evaluate again.") from error


def from_plain(plain: dict[str, Any]) -> Result:
    """A result from its plain values."""
    plain = dict(plain)
    plain["clean"] = Judged(**plain["clean"])
    plain["attacks"] = [AttackRecord(**{**record, "judged": Judged(**record["judged"])}) for record in plain["attacks"]]
    plain["diagnostics"] = [Diagnostic(**item) for item in plain["diagnostics"]]
    if plain.get("bare") is not None:  # results of older versions have none
        plain["bare"] = from_plain(plain["bare"])
    return Result(**plain)


def checksum(plain: dict[str, Any]) -> str:
    """SHA-256 of the values in a fixed spelling."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
