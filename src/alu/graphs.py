"""The graphs of a defence, each traced from the code that torch runs, and the program that runs them one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alu.decision import Evidence, Findings
from alu.defense import Defense
from alu.detectors import Neighbourhood
from alu.engine import NEXT
from alu.purifiers import Chain, LatentVAE, Purifier
from alu.purifiers.base import Purification
from alu.storage import sha256
from alu.tracing import COUNT, Function, write_graph

Found = dict[str, Tensor]
EVIDENCE = ("images", "purified", "pre_logits", "post_logits")
TESTS = ("flagged", "suspicious", "noisy", "specked")


class Writer:
    """Traces parts of a defence and writes their graphs; each takes values that the images or an earlier graph gave.

    A stage of `program` names its graph. "factors": the graph is run once for each row of numbers, which it takes as
    "factor_0" and so on, and its outputs called "next.x" take the place of x. "while": no longer once this value is
    false for every image. "set": values that get the value of another before that.

    Parameters
    ----------
    folder
        Where the files go.
    shape
        Channels, height and width of the images that the graphs will read.
    """

    def __init__(self, folder: Path, shape: Sequence[int]) -> None:
        self.folder = folder
        self.values: Found = {"images": torch.zeros((COUNT, *shape))}
        self.program: list[dict[str, Any]] = []
        self.checksums: dict[str, str] = {}

    def write(self, name: str, function: Function, takes: Sequence[str], factors: Sequence[float] = ()) -> None:
        """Write one graph; of `factors` only the number matters."""
        inputs = {one: self.values[one] for one in takes}
        inputs |= {f"factor_{place}": torch.tensor(factor) for place, factor in enumerate(factors)}
        path = self.folder / f"{name}.onnx"
        found = write_graph(function, inputs, path)
        self.values |= {one.removeprefix(NEXT): value for one, value in found.items()}
        self.checksums[name] = sha256(path)

    def run(self, name: str, **how: Any) -> None:
        """Add a stage to the program."""
        self.program.append({"graph": name, **how})

    def named(self, beginning: str) -> list[str]:
        """The values whose names begin like this."""
        return [name for name in self.values if name.startswith(beginning)]


def write_graphs(defense: Defense, writer: Writer) -> None:
    """Write every graph of a defence."""
    parts = defense.purifier.parts if isinstance(defense.purifier, Chain) else [defense.purifier]
    detector, latent, search = defense.detector, None, None
    if isinstance(parts[-1], LatentVAE) and not parts[-1].learned:  # learned steps are traced like any network
        latent = Steps(parts[:-1], parts[-1], defense.reference == "reconstruction")
        latent.write(writer)
    if isinstance(detector, Neighbourhood):
        search = Search(detector, defense)

    def classify(images: Tensor, *rest: Tensor) -> Found:
        """Evidence, and what the tests are made from."""
        output = None if latent is None else latent.output(images, *rest)
        evidence = defense.evidence(images, output)
        found = {name: getattr(evidence, name).clone() for name in EVIDENCE[1:]}
        return found | (scored(defense, evidence) if search is None else search.start(evidence))

    def rule(images: Tensor, purified: Tensor, before: Tensor, after: Tensor, *tests: Tensor) -> Found:
        findings = Findings.of(*tests)
        label, accepted = defense.rule_.decide(Evidence(images, purified, before, after), findings)
        return {"label": label, "accepted": accepted, "state": findings.state}

    writer.write("classify", classify, ["images", *writer.named("code"), *writer.named("reconstruction")])
    writer.run("classify")
    if search is not None:
        search.write(writer)
    writer.values |= dict.fromkeys(TESTS, torch.zeros(COUNT, dtype=torch.bool))
    writer.write("rule", rule, [*EVIDENCE, *TESTS])


def scored(defense: Defense, evidence: Evidence) -> Found:
    """What both tests are made from: scores, their groups, and the statistics of what purification took away."""
    if defense.detector is None:
        return {}
    found = {"score": defense.detector.score(evidence)}
    groups = defense.detector.groups(evidence)
    if groups is not None:
        found["group"] = groups
    if evidence.purified.shape == evidence.images.shape:
        found["statistics"] = defense.residual.statistics(evidence)
    return found


class Steps:
    """Latent steps: one graph for the code before the first, one for any of them.

    Parameters
    ----------
    before
        What purifies the images before them.
    purifier
        What makes the steps.
    reconstruct
        Whether the reconstruction is asked for.
    """

    def __init__(self, before: Sequence[Purifier], purifier: LatentVAE, reconstruct: bool) -> None:
        self.before, self.purifier, self.reconstruct = before, purifier, reconstruct

    def write(self, writer: Writer) -> None:
        """Write both graphs."""
        writer.write("encode", self.encode, ["images"])
        writer.run("encode")
        solver = self.purifier.new_solver(writer.values["code"])
        factors = [list(solver.factors(step)) for step in range(self.purifier.steps)]
        if factors:
            writer.write("step", self.step, ["padded", "code", *writer.named("state_")], factors[0])
            writer.run("step", factors=factors)

    def encode(self, images: Tensor) -> Found:
        """What the steps start from and aim at."""
        for part in self.before:
            images = part.purify(images, "blind").purified
        padded = self.purifier.padded(images)
        code = self.purifier.start_code(padded)
        found = {"padded": padded.clone(), "code": code}
        found |= {f"state_{place}": one for place, one in enumerate(self.purifier.new_solver(code).state)}
        return found | ({"reconstruction": self.purifier.reconstructed(images)} if self.reconstruct else {})

    def step(self, padded: Tensor, code: Tensor, *rest: Tensor) -> Found:
        """The code one step later, and what the solver remembers."""
        solver = self.purifier.new_solver(code)
        count = len(solver.state)
        solver.state, factors = [one.clone() for one in rest[:count]], rest[count:]
        code = code.detach().clone()
        gradient, _ = self.purifier.problem.gradient(code, padded)
        solver.update(code, gradient, *factors)
        return {f"{NEXT}code": code} | {f"{NEXT}state_{place}": one for place, one in enumerate(solver.state)}

    def output(self, images: Tensor, code: Tensor, reconstruction: Tensor | None = None) -> Purification:
        """What the purifier gives once the steps are made."""
        return Purification(self.purifier.decoded(code, images), reconstruction)


class Search:
    """The search around the image: one graph for a step of it, one for the score of what it found.

    Parameters
    ----------
    detector, defense
        What searches, and in which defence.
    """

    def __init__(self, detector: Neighbourhood, defense: Defense) -> None:
        self.detector, self.defense = detector, defense

    def start(self, evidence: Evidence) -> Found:
        """Where it begins, and which classes it climbs towards."""
        own, images = evidence.post_logits.argmax(1), evidence.purified
        best, highest = self.detector.nothing_found(images)
        searches = list(self.detector.searches(images, evidence.post_logits, own))
        found = {"own": own, "at": images.clone(), "best": best, "highest": highest}
        return found | {f"target_{place}": one for place, (_, one) in enumerate(searches) if one is not None}

    def write(self, writer: Writer) -> None:
        """Write both graphs."""
        targets = writer.named("target_")
        takes = ["purified", "own", "at", "best", "highest"]
        if targets:
            takes.append("target")
            writer.values["target"] = writer.values[targets[0]]
        factors = [[size] for size in (*self.detector.sizes, 0.0)]  # the last neighbour is only looked at
        writer.write("search", self.step, takes, factors[0])
        for begin in [{"at": "purified", "target": name} for name in targets] or [{}]:
            writer.run("search", factors=factors, set=begin, **{"while": "left"})
        writer.write("score", self.score, [*EVIDENCE, "highest"])
        writer.run("score")

    def step(self, images: Tensor, own: Tensor, at: Tensor, best: Tensor, highest: Tensor, *rest: Tensor) -> Found:
        """One step for every image that still has its answer; the others stay where they are."""
        *target, size = rest
        found = (at, best, highest)
        goal = target[0] if target else None
        moved, best, highest = self.detector.climb(self.defense.classifier, images, own, goal, found, size)
        left = highest <= 0
        at = torch.where(left.view(-1, 1, 1, 1), moved, at)
        return {f"{NEXT}at": at, f"{NEXT}best": best, f"{NEXT}highest": highest, "left": left}

    def score(self, images: Tensor, purified: Tensor, before: Tensor, after: Tensor, highest: Tensor) -> Found:
        """The score, and the statistics of what purification took away, which is nothing."""
        evidence = Evidence(images, purified, before, after, self.defense.classifier)
        return {"score": highest.clone(), "statistics": self.defense.residual.statistics(evidence)}
