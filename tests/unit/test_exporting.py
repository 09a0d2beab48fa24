"""What can be exported is written whole or not at all; what cannot is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import alu
from alu import Defense, exporting
from alu.decision import Evidence
from alu.detectors import Certificate, LogitShift, Neighbourhood
from alu.errors import AluError, InputError, NotFittedError, StorageError, UsageError
from alu.models import Smoothed
from alu.purifiers import Blur, Hedge, LatentVAE
from tests.contracts.parts import LinearClassifier, images_like, small_vae

SHAPE = (3, 8, 8)


def defended(classifier: object = None, **more: object) -> Defense:
    settings = {"purifier": Blur(0.7), "detector": LogitShift(0.1), **more}
    return Defense(classifier or LinearClassifier(SHAPE, 3), **settings)  # type: ignore[arg-type]


def calibrated(classifier: object = None, **more: object) -> Defense:
    return defended(classifier, **more).calibrate(images_like(40, SHAPE))


class Counting(nn.Module):
    """A classifier whose answers depend on how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.calls = LinearClassifier(SHAPE, 3), 0

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        logits: Tensor = self.inside(images) * (1 + self.calls)
        return logits


class OwnPValues(LogitShift):
    """A detector with p-values of its own."""

    def p_values(self, evidence: Evidence, scores: Tensor) -> Tensor:
        return super().p_values(evidence, scores) / 2


def smoothed() -> Defense:
    classifier = Smoothed(LinearClassifier(SHAPE, 3), sigma=0.1)
    return Defense(classifier, detector=Certificate(0.05, n=50, n0=5), rule="abstain")


REFUSED: dict[str, tuple[Callable[[], object], type[AluError], str]] = {
    "a classifier": (lambda: LinearClassifier(SHAPE, 3), UsageError, "needs a Defense; it was given LinearClassifier"),
    "sampled code": (
        lambda: calibrated(purifier=LatentVAE(small_vae(SHAPE), start="sampled", steps=1)),
        UsageError,
        "LatentVAE draws random numbers",
    ),
    "hedge": (
        lambda: calibrated(purifier=Hedge(LinearClassifier(SHAPE, 3), steps=1)),
        UsageError,
        "Hedge draws random",
    ),
    "restarts": (
        lambda: Defense(LinearClassifier(SHAPE, 3), detector=Neighbourhood(restarts=2), rule="abstain"),
        UsageError,
        "Neighbourhood draws random numbers",
    ),
    "certificate": (smoothed, UsageError, "Certificate draws random numbers"),
    "float64": (lambda: calibrated().double(), UsageError, "in float32; this one is on cpu and in torch.float64"),
    "not calibrated": (defended, NotFittedError, "LogitShift has no threshold yet"),
    "no size": (lambda: Defense(LinearClassifier(SHAPE, 3), rule="purified"), UsageError, "Pass some to alu.export"),
    "own p-values": (lambda: calibrated(detector=OwnPValues(0.1)), UsageError, "OwnPValues has its own p_values"),
    "looks at values": (
        lambda: calibrated(lambda images: images.mean((2, 3)) * (2 if images.mean() > 0.5 else 3)),
        InputError,
        "classify could not be turned into a graph",
    ),
    "leaves torch": (
        lambda: calibrated(lambda images: images.numpy().mean((2, 3)) * 9),
        InputError,
        "classify could not be turned into a graph",
    ),
    "counts": (lambda: calibrated(Counting()), InputError, "the graphs answer otherwise than torch"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_one_sentence_and_no_file(name: str, tmp_path: Path) -> None:
    maker, kind, sentence = REFUSED[name]
    with pytest.raises(kind, match=sentence) as error:
        alu.export(maker(), tmp_path / "a" / "b")  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_images_of_another_size_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="calibrated on images of 3 x 8 x 8"):
        alu.export(calibrated(), tmp_path / "export", images_like(40, (3, 9, 8)))
    with pytest.raises(InputError, match="was given no image"):
        alu.export(calibrated(), tmp_path / "export", images_like(0, SHAPE))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exporting") / "export"
    alu.export(calibrated(), path)
    return path


def test_a_failed_export_leaves_the_earlier_one(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError):
        alu.export(calibrated(Counting()), folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["export"]


def test_other_folders_are_not_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StorageError, match="already there and was not written by alu"):
        alu.export(calibrated(), tmp_path)
    calibrated().save(tmp_path / "saved")
    with pytest.raises(StorageError, match="already there and was not written by alu"):
        alu.export(calibrated(), tmp_path / "saved")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt", "saved"]


def test_the_file_says_what_it_is(folder: Path) -> None:
    facts = json.loads((folder / "exported.json").read_text())
    assert facts["shape"] == [3, 8, 8]
    assert facts["purifier"] == {"name": "Blur", "sigma": 0.7}
    assert facts["detector"] == {"name": "LogitShift", "false_alarm": 0.1, "per_class": False, "fixed": None}
    assert facts["classifier"]["kind"] == "given"
    assert {"alu", "commit", "torch", "onnx", "engine", "processor"} <= set(facts["provenance"])
    assert set(facts["graphs"]) == {"classify", "rule"}
    learned = json.loads((folder / "calibration.json").read_text())
    assert len(learned["detector"]["scores"]) == 40
    assert learned["engine"].startswith("torch")


def test_clean_images_calibrate_the_export_itself(tmp_path: Path) -> None:
    classifier, clean = LinearClassifier(SHAPE, 3), images_like(60, SHAPE, seed=4)
    seen: list[tuple[str, int, int]] = []
    made = alu.export(
        defended(classifier), tmp_path / "export", clean, batch_size=25, watch=lambda *what: seen.append(what)
    )
    assert made.engine.startswith("onnxruntime")
    assert [what for what in seen if what[0] == "Calibrating"] == [("Calibrating", done, 60) for done in (25, 50, 60)]
    truth = defended(classifier).calibrate(clean)
    assert truth.detector is not None
    assert made.calibration is not None
    torch.testing.assert_close(torch.from_numpy(made.calibration.scores), truth.detector.scores_, atol=1e-4, rtol=0)
    torch.testing.assert_close(torch.from_numpy(made.residual), truth.residual.clean_, atol=1e-5, rtol=0)


def test_a_fixed_threshold_is_not_calibrated_unasked(tmp_path: Path) -> None:
    check = Defense(LinearClassifier(SHAPE, 3), detector=Neighbourhood(steps=1), rule="abstain")
    made = alu.export(check, tmp_path / "export", images_like(3, SHAPE))
    assert made.decide(images_like(3, SHAPE).numpy()).to_dict()["p_value"] == [None] * 3
    assert made.engine.startswith("torch")


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    defense = calibrated().train()
    state = torch.get_rng_state()
    alu.export(defense, tmp_path / "export")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(part.training for part in defense.modules())
    assert all(weight.grad is None and weight.requires_grad for weight in defense.classifier.parameters())  # type: ignore[attr-defined]


def test_a_network_that_cannot_be_rebuilt_is_named() -> None:
    own = LatentVAE(small_vae(SHAPE))
    assert exporting._described(own)["name"] == "LatentVAE"
    del own.vae.architecture
    assert exporting._described(own) == {"name": "LatentVAE"}
