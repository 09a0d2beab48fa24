"""Results that look like those of an evaluation, made from a seed without attacking anything."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from dataclasses import asdict, fields
from typing import Any

from alu.evaluation.diagnostics import from_outcomes
from alu.evaluation.metrics import WRONG, outcomes
from alu.evaluation.result import Answers, AttackRecord, Diagnostic, Result, from_plain

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
THRESHOLD = 22.0
BLOCK = 10

Row = tuple[str, str, bool, float, float]

# name, knowledge, attacks every image, P(right), typical score
ATTACKS: tuple[Row, ...] = (
    ("fgsm", "oblivious", True, 0.75, 40.0),
    ("pgd-20", "oblivious", True, 0.9, 80.0),
    ("surrogate pgd-20", "surrogate", True, 0.6, 30.0),
    ("decoy", "adaptive", False, 0.12, 60.0),
    ("stealth", "adaptive", False, 0.4, 12.0),
    ("query", "adaptive", False, 1.0, 9.0),
)


def judged(draw: random.Random, labels: list[int], images: list[int], right: float, score: float, rule: str) -> Answers:
    """Answers to these images, right with this chance, with scores around this one."""
    made = Answers(images=list(images))
    for image in images:
        truth = labels[image]
        other = (truth + draw.randrange(1, 10)) % 10
        value = round(draw.lognormvariate(0.0, 0.5) * score, 6)
        good = draw.random() < right
        made.answer.append(truth if good else other)
        made.flagged.append(value > THRESHOLD)
        made.accepted.append(rule != "abstain" or value <= THRESHOLD)
        made.score.append(value)
        made.bare.append(truth if draw.random() < 0.3 else other)
        made.purified.append(truth if draw.random() < 0.6 else other)
        made.control.append(truth if draw.random() < 0.4 else other)
        made.rise_true.append(round(draw.gauss(score / 8 if good else -1.0, 1.5), 4))
        made.rise_other.append(round(draw.gauss(1.0 if good else score / 8, 1.5), 4))
    return made


def png(draw: random.Random, size: int = 8) -> str:
    """A small picture of noise as a data URI."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + bytes(draw.randrange(256) for _ in range(3 * size)) for _ in range(size))
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + content).decode()


def example(draw: random.Random, attack: str, image: int, label: int) -> dict[str, Any]:
    return {
        "attack": attack, "image": image, "true": label, "answer": draw.randrange(10), "flagged": draw.random() < 0.5,
        "score": round(draw.random() * 60, 4),
        **{name: png(draw) for name in ("clean", "adversarial", "perturbation", "purified")},
        "before": [round(draw.gauss(0, 4), 3) for _ in CLASSES], "after": [round(draw.gauss(0, 4), 3) for _ in CLASSES],
    }  # fmt: skip


def attack(draw: random.Random, labels: list[int], standing: list[int], row: Row, rule: str) -> AttackRecord:
    name, knowledge, whole, right, score = row
    images = list(range(len(labels))) if whole else standing
    made = AttackRecord(name, knowledge, f"{name} on <this> & that", {"steps": 20, "batch_size": BLOCK}, whole)
    made.answers = judged(draw, labels, images, right, score, rule)
    made.distance = [round(8 / 255 - draw.random() / 500, 6) for _ in images]
    made.seconds, made.forwards, made.backwards = 1.5 * len(images), 21 * len(images), 20 * len(images)
    return made


def harmless(
    name: str, moderate: bool, bare: int, purified: int, right: int, flagged: int, rule: str
) -> dict[str, Any]:
    """What became of 50 images that were changed harmlessly."""
    rejected = flagged if rule == "abstain" else 0
    return {
        "change": name, "moderate": moderate, "bare": bare, "purified": purified, "right": right, "flagged": flagged,
        "rejected": rejected, "n": 50,
    }  # fmt: skip


def cascade(
    draw: random.Random, labels: list[int], clean: Answers, rows: tuple[Row, ...], rule: str
) -> list[AttackRecord]:
    """Attacks one after the other, each on what is left standing."""
    made: list[AttackRecord] = []
    for row in rows:
        fallen = {
            image
            for one in (clean, *(record.answers for record in made))
            for image, value in outcomes(one, labels).items()
            if value == WRONG
        }
        made.append(attack(draw, labels, [image for image in range(len(labels)) if image not in fallen], row, rule))
    return made


def own(draw: random.Random, of: Result) -> Result:
    """The classifier of this result under its own attacks."""
    made = from_plain({**asdict(of), "bare": None})
    made.subject = {"name": "the classifier", "traits": {}}
    made.clean.answer, made.clean.accepted = list(of.clean.bare), [True] * len(of.labels)
    made.attacks = cascade(draw, made.labels, made.clean, OWN, "")
    return without_defense(made)


OWN: tuple[Row, ...] = (("pgd-20", "adaptive", True, 0.5, 0.0), ("square", "adaptive", False, 0.6, 0.0))
"""The attacks on the bare classifier."""


def result(n: int = 60, seed: int = 0, name: str = "VAE + ALU", rule: str = "alu") -> Result:
    """A whole result of a defence; images stand in the order of a random draw."""
    draw = random.Random(seed)
    labels = [number % 10 for number in range(n)]
    clean = judged(draw, labels, list(range(n)), 0.85, 9.0, rule)
    attacks = cascade(draw, labels, clean, ATTACKS, rule)
    made = Result(
        subject={"name": name, "rule": rule, "reference": "input", "traits": {"iterative": True}},
        dataset={"name": "cifar10", "split": "test", "n": n, "sha256": f"{n:064x}"},
        threat={"norm": "Linf", "eps": 8 / 255}, suite="adaptive", budget="quick", labels=labels,
        numbers=random.Random(99).sample(range(10_000), n), classes=CLASSES, clean=clean, attacks=attacks,
        provenance={
            "alu": "0.1.0", "commit": "0123456789ab", "torch": "2.13.0", "python": "3.11.2",
            "processor": "a CPU, 2 cores", "threads": 2, "seed": 0,
        },
    )  # fmt: skip
    made.diagnostics = [
        *from_outcomes(made),
        Diagnostic("more-steps", "failed", "Right answers of 32 against steps: 9 after 5, 6 after 20, 1 after 60."),
        Diagnostic("noise", "not run", "There is no gradient."),
    ]
    made.curves = {
        "eps": [
            {"eps": eps / 255, "right": right, "n": 32, "attack": "Direct-20"}
            for eps, right in ((2, 20), (4, 9), (8, 4), (16, 1), (64, 0))
        ],
        "steps": [{"steps": steps, "right": right, "n": 32, "attack": "Direct"} for steps, right in ((5, 9), (20, 4))],
    }
    made.detection = {
        "detector": {
            "name": "LogitShift", "threshold": THRESHOLD, "false_alarm": 0.005, "calibration_images": 1000,
        },
        "harmless": [
            harmless("Gaussian noise 0.2", False, 30, 35, 33, 9, rule),
            harmless("JPEG, quality 90", True, 45, 42, 40, 3, rule),
            harmless("brightness +0.1", True, 44, 43, 44, 0, rule),
        ],
    }  # fmt: skip
    made.bare = own(draw, made)
    made.examples = [example(draw, row[0], image, labels[image]) for row in ATTACKS[:2] for image in range(3)]
    return made


def refusing(n: int = 60, seed: int = 0) -> Result:
    """A whole result of a defence that refuses, with its rival, what silences it, and an attack that was left out."""
    made = result(n, seed, rule="abstain")
    made.rival = from_plain({**asdict(result(n, seed + 1, "by confidence", "abstain")), "bare": None})
    made.curves["denial"] = [
        {"eps": eps / 255, "right": right, "n": n, "attack": "Denial"} for eps, right in ((0, 40), (1, 31), (2, 9))
    ]
    made.left_out = ["soft: there is nothing to smooth."]
    return made


def plain(n: int = 60) -> Result:
    """A result of a model that is no defence: no detector, no purifier, no examples, nothing checked."""
    return without_defense(result(n, name="a bare network", rule=""))


def without_defense(made: Result) -> Result:
    """The same, less everything that only a defence has."""
    made.bare = None
    made.detection, made.examples, made.diagnostics, made.curves = {}, [], [], {}
    for one in (made.clean, *(record.answers for record in made.attacks)):
        one.score, one.flagged = [None] * len(one.images), [False] * len(one.images)
        one.purified, one.control, one.bare, one.rise_true, one.rise_other = [], [], [], [], []
        one.accepted = [True] * len(one.images)
    return made


def part(whole: Result, index: int, count: int) -> Result:
    """The shard that an evaluation of these images would have written."""
    blocks = range(index, -(-len(whole.labels) // BLOCK), count)
    kept = [
        place for block in blocks for place in range(block * BLOCK, (block + 1) * BLOCK) if place < len(whole.labels)
    ]
    place = {position: new for new, position in enumerate(kept)}
    made = from_plain(asdict(whole))
    made.labels, made.numbers = [whole.labels[at] for at in kept], [whole.numbers[at] for at in kept]
    made.clean = _chosen(whole.clean, place)
    for mine, theirs in zip(made.attacks, whole.attacks, strict=True):
        mine.distance = [
            value for image, value in zip(theirs.answers.images, theirs.distance, strict=True) if image in place
        ]
        mine.answers = _chosen(theirs.answers, place)
        share = len(mine.answers.images)
        mine.seconds, mine.forwards, mine.backwards = 1.5 * share, 21 * share, 20 * share
    if index:  # the first shard alone asks what does not need every image
        made.examples, made.diagnostics, made.curves = [], [], {}
        made.detection.pop("harmless", None)
    elif whole.diagnostics:
        made.diagnostics = [*from_outcomes(made), *(item for item in whole.diagnostics[len(from_outcomes(made)) :])]
    made.shard = [index, count]
    made.bare = None if whole.bare is None else part(whole.bare, index, count)
    return made


def _chosen(judged: Answers, place: dict[int, int]) -> Answers:
    rows = [at for at, image in enumerate(judged.images) if image in place]
    made = Answers(images=[place[judged.images[at]] for at in rows])
    for item in fields(Answers):
        if item.name != "images" and getattr(judged, item.name):
            setattr(made, item.name, [getattr(judged, item.name)[at] for at in rows])
    return made


def without_times(result: Result) -> dict[str, Any]:
    """A result's plain values without what differs from run to run."""
    plain = result.as_json()
    plain.pop("checksum")
    for record in [*plain["attacks"], *(plain["bare"] or {"attacks": []})["attacks"]]:
        record.pop("seconds")
    return plain


def status(result: Result, id: str) -> tuple[str, str]:
    """The status of one diagnostic, and what it says."""
    (item,) = (item for item in result.diagnostics if item.id == id)
    return item.status, item.says
