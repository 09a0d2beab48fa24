"""Verdicts: what every way to answer says about the same images, from one purification of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from alu.decision import Evidence
from alu.detectors import LogitShift
from alu.experiments.material import Material, Shown
from alu.purifiers import Purifier


def digits(right: Tensor) -> str:
    """One digit for each image: 1 for yes, 0 for no."""
    return "".join("1" if value else "0" for value in right.tolist())


def rounded(values: Tensor) -> list[float]:
    """Plain numbers of three digits behind the point."""
    return [round(float(value), 3) for value in values]


def evidence(
    material: Material, classifier: str, name: str, shown: Shown, purifier: Purifier | None = None
) -> dict[str, Evidence]:
    """What each reading looks at: "input" and, where the purifier has one, "reconstruction"."""
    done = material.purified(name, shown, purifier)
    after = material.logits(classifier, ("purified", name, shown.key), done.purified)
    found = {}
    if "-asymmetric" not in name:  # which reads nothing but the purifier's features
        before = material.logits(classifier, shown.key, shown.images)
        found["input"] = Evidence(shown.images, done.purified, before, after)
    if done.reconstruction is not None:
        again = material.logits(classifier, ("reconstruction", name, shown.key), done.reconstruction)
        found["reconstruction"] = Evidence(shown.images, done.purified, again, after)
    return found


def detector(
    material: Material, classifier: str, name: str, reading: str, purifier: Purifier | None = None
) -> LogitShift:
    """The paper's detector, calibrated on held-out clean images of the classifier's data set."""

    def made() -> LogitShift:
        dataset = classifier.rsplit("-", 1)[0]
        calm = material.images(dataset, "calibration", material.sizes["calibration"])
        fitted = LogitShift()
        fitted.calibrate(evidence(material, classifier, name, calm, purifier)[reading])
        return fitted

    found: LogitShift = material.once(("detector", classifier, name, reading), made)
    return found


@torch.no_grad()
def verdicts(
    material: Material, classifier: str, name: str, shown: Shown, purifier: Purifier | None = None
) -> dict[str, Any]:
    """Right or not for each image: the bare classifier, the purified answer, and for each reading the deployed
    answer ("alu"), the answer if everything were flagged ("all flagged"), and the flags themselves."""
    labels = shown.labels
    found: dict[str, Any] = {"n": len(shown)}
    for reading, seen in evidence(material, classifier, name, shown, purifier).items():
        if reading == "input":
            found["bare"] = digits(seen.pre_logits.argmax(1) == labels)
        found["purified"] = digits(seen.post_logits.argmax(1) == labels)
        fitted = detector(material, classifier, name, reading, purifier)
        found[reading] = answered(seen, fitted, labels)
    return found


def answered(seen: Evidence, fitted: LogitShift, labels: Tensor) -> dict[str, str]:
    """Right or not for each image: deployed, and if everything were flagged; and the flags themselves."""
    flagged = fitted.test(seen).flagged
    answer = torch.where(flagged[:, None], seen.change, seen.post_logits).argmax(1)
    return {
        "alu": digits(answer == labels),
        "all flagged": digits(seen.change.argmax(1) == labels),
        "flagged": digits(flagged),
    }
