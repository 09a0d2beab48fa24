"""The demo's numbers are those of `Defense.evidence`: nothing is computed on a second path."""

from __future__ import annotations

import torch

from alu.defense import Defense
from alu.demo import gather
from alu.detectors import LogitShift
from alu.purifiers import Blur, LatentVAE
from tests.contracts.parts import LinearClassifier, images_like, small_vae

SHAPE = (3, 16, 16)


def test_each_defence_has_its_own_evidence_in_batches() -> None:
    classifier, vae = LinearClassifier(SHAPE, 5), LatentVAE(small_vae(SHAPE), steps=2)
    defenses = {
        "purified": Defense(classifier, vae, LogitShift(), "purified"),
        "input": Defense(classifier, vae, LogitShift(), "alu", "input"),
        "reconstruction": Defense(classifier, vae, LogitShift(), "alu", "reconstruction"),
        "blur": Defense(classifier, Blur(1.0), LogitShift(), "alu", "input"),
    }
    images = images_like(7, SHAPE)
    progress: list[tuple[int, int]] = []
    gathered = gather(defenses, images, lambda done, total: progress.append((done, total)), batch_size=4)
    for name, defense in defenses.items():
        with torch.no_grad():
            own = defense.evidence(images)
        for field in ("images", "purified", "pre_logits", "post_logits"):
            torch.testing.assert_close(getattr(gathered[name], field), getattr(own, field), rtol=0, atol=1e-5)
    assert gathered["purified"] is gathered["input"], "they differ in their rule alone"
    assert progress == [(done, 21) for done in (4, 7, 11, 14, 18, 21)]


def test_another_classifier_has_evidence_of_its_own() -> None:
    purifier = Blur(1.0)
    defenses = {name: Defense(LinearClassifier(SHAPE, 5), purifier, rule="purified") for name in ("one", "two")}
    gathered = gather(defenses, images_like(3, SHAPE), lambda *_: None)
    assert gathered["one"] is not gathered["two"]
