"""alu.fit: what it returns, how it divides images, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import alu
from alu import fitting
from alu.check import AluWarning
from alu.choosing import CANDIDATES
from alu.data.splits import own_part
from alu.errors import DataError, InputError, StorageError, UsageError
from alu.fitted import HarmfulDefenseError
from alu.fitting import Plan, fit_and_measure
from alu.purifiers import JPEG, PCA, SOAP, Blur, Hedge, LatentVAE
from alu.stats import Share
from tests.unit.test_fitted import Bright, half_bright

# So few and simple images leave every defence with a weakness that is warned of.
pytestmark = pytest.mark.filterwarnings("ignore:Harmless changes cost|This defence notices:alu.check.AluWarning")
CLEAN = half_bright(400)
QUICK: dict[str, Any] = {"purifier": "blur", "false_alarm": 0.05}


def test_tensors_give_a_calibrated_defence() -> None:
    images, labels = CLEAN.images, CLEAN.labels
    stages = []
    defense = alu.fit(Bright(), images, labels, **QUICK, watch=lambda what, done, total: stages.append(what))
    assert isinstance(defense, alu.Defense)
    assert isinstance(defense.purifier, Blur)
    assert defense.rule in CANDIDATES
    assert (defense.reference, defense.classes) == ("input", ("0", "1"))
    assert len(defense.detector.scores_) == 60, "15 % of 400"
    assert (defense.decide(images).label == labels).float().mean() > 0.9
    assert stages[:2] == ["The classifier is right on 60 of 60 images", "Calibrating"]
    assert stages[-1] == "Checking on harmless changes"


def test_tensors_are_divided_like_the_pictures_of_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Tensor] = {}

    def learn(_: object, parts: dict[str, alu.data.Dataset], *more: object) -> Blur:
        seen.update({name: part.indices for name, part in parts.items()})
        assert all(torch.equal(part.pixels, CLEAN.images[part.indices]) for part in parts.values())
        return Blur(0.5)

    monkeypatch.setattr(fitting, "_purifier", learn)
    alu.fit(Bright(), CLEAN.images, CLEAN.labels, false_alarm=0.05)
    assert {name: len(part) for name, part in seen.items()} == {
        "train": 280, "validation": 20, "calibration": 60, "test": 40,
    }  # fmt: skip
    assert sorted(torch.cat(list(seen.values())).tolist()) == list(range(400)), "disjoint, and all of them"
    assert all(torch.equal(part, own_part(CLEAN.labels, name)) for name, part in seen.items())


def test_a_data_set_and_a_file_give_the_same_defence_as_tensors(tmp_path: Path) -> None:
    path = tmp_path / "half.npz"
    np.savez(path, images=CLEAN.pixels.numpy(), labels=CLEAN.labels.numpy(), classes=np.array(CLEAN.classes))
    by_tensors = alu.fit(Bright(), CLEAN.images, CLEAN.labels, classes=["dark", "bright"], **QUICK)
    for given in (CLEAN, path, str(path)):
        defense = alu.fit(Bright(), given, **QUICK)
        assert defense.classes == by_tensors.classes == ("dark", "bright")
        assert torch.equal(defense.decide(CLEAN.images).p_value, by_tensors.decide(CLEAN.images).p_value)


@pytest.mark.parametrize(("purifier", "kind"), [("pca", PCA), ("vae", LatentVAE)])
def test_what_is_trained_is_trained_on_the_images(purifier: str, kind: type, tmp_path: Path) -> None:
    settings = {"epochs": 1, "steps": 2, "checkpoint": tmp_path / "run"} if purifier == "vae" else {}
    defense = alu.fit(Bright(), CLEAN, purifier=purifier, false_alarm=0.05, force=True, **settings)
    assert isinstance(defense.purifier, kind)
    assert (tmp_path / "run" / "checkpoint.safetensors").exists() == (purifier == "vae")
    defense.save(tmp_path / "saved")


class Darker(alu.purifiers.Purifier):
    """A purifier of the user's own."""

    def run(self, images: Tensor) -> Tensor:
        return 0.99 * images


@pytest.mark.parametrize(
    ("purifier", "kind"), [(Darker(), Darker), ("jpeg@50", JPEG), ("hedge", Hedge), ("soap@1", SOAP)]
)
def test_any_purifier_will_do(purifier: Any, kind: type) -> None:
    defense = alu.fit(Bright(), CLEAN.images, CLEAN.labels, purifier=purifier, false_alarm=0.05, force=True)
    assert isinstance(defense.purifier, kind)


def test_what_was_measured_comes_with_it() -> None:
    parts = {"calibration": half_bright(60), "test": half_bright(30)}
    fitted = fit_and_measure(Bright(), parts, plan=Plan(purifier="blur", false_alarm=0.05))
    assert (fitted.clean.bare, fitted.defense.classes) == (Share(30, 30), ("dark", "bright"))
    fitted.refuse_harm()
    whole = fit_and_measure(Bright(), CLEAN.images, CLEAN.labels, Plan(**QUICK))
    assert whole.clean.bare == Share(40, 40)


class Fragile(nn.Module):
    """Right on the images themselves, and wrong on anything blurred."""

    def forward(self, images: Tensor) -> Tensor:
        sharp = (images[..., 1:] - images[..., :-1]).abs().mean((1, 2, 3)) > 0.08
        answer: Tensor = Bright()(images)
        return torch.where(sharp[:, None], answer, -answer)


def test_a_harmful_defence_is_refused_unless_forced() -> None:
    with pytest.raises(HarmfulDefenseError, match=r"loses too many clean answers .* force=True") as refused:
        alu.fit(Fragile(), CLEAN, **QUICK, rule="alu")  # one that answers from the purified images
    assert "--" not in str(refused.value)
    with pytest.warns(AluWarning, match="Harmless changes cost"):
        assert isinstance(alu.fit(Fragile(), CLEAN, **QUICK, rule="alu", force=True), alu.Defense)


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"purifier": "vea"}, UsageError, "There is no purifier 'vea'. Did you mean vae"),
        ({"purifier": "adp:gone.safetensors"}, StorageError, "The network gone.safetensors does not exist"),
        ({"purifier": "adp@3", "reference": "reconstruction"}, UsageError, "needs a VAE; adp@3 has no reconstruction"),
        ({"purifier": "gone.safetensors"}, StorageError, "The network gone.safetensors does not exist"),
        ({"detector": "peek"}, UsageError, "There is no detector 'peek'. Did you mean peak"),
        ({"rule": "alou"}, UsageError, "There is no rule 'alou'. Did you mean alu"),
        ({"reference": "imput"}, UsageError, "There is no reference 'imput'. Did you mean input"),
        ({"purifier": "pca", "reference": "reconstruction"}, UsageError, 'reference="reconstruction" needs a VAE; pca'),
        ({"steps": -1}, UsageError, "A fit needs steps= of at least 0"),
        ({"epochs": 0}, UsageError, "epochs= of at least 1 and max_minutes= above 0; it was given 20, 0 and 120"),
        (
            {"max_minutes": 1e-9},
            UsageError,
            r"Give max_minutes=[\d.]+, smaller pictures \(size=\) or fewer epochs=;",
        ),
        (
            {"false_alarm": 0.001},
            InputError,
            r"there are 60\. Give about \d+ pictures in all, or .* false_alarm=0.017",
        ),
        ({"false_alarm": 2.0}, UsageError, "false_alarm"),
        ({"device": "nowhere"}, UsageError, "There is no device 'nowhere'"),
        ({"classes": ["only"]}, InputError, "labels run from 0 to 1"),
    ],
)
def test_refusals_name_parameters_and_no_options(
    settings: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence) as refused:
        alu.fit(Bright(), CLEAN.images, CLEAN.labels, **{"false_alarm": 0.05, **settings})
    assert "--" not in str(refused.value)


def test_images_and_labels_must_belong_together() -> None:
    with pytest.raises(UsageError, match="fit needs the labels of its images"):
        alu.fit(Bright(), CLEAN.images)
    with pytest.raises(UsageError, match="takes labels and class names from the data set"):
        alu.fit(Bright(), CLEAN, CLEAN.labels)
    with pytest.raises(InputError, match=r"fit needs images in \[0, 1\]"):
        alu.fit(Bright(), 255 * CLEAN.images, CLEAN.labels)
    with pytest.raises(InputError, match="one whole-number label per image"):
        alu.fit(Bright(), CLEAN.images, CLEAN.labels[:-1])
    with pytest.raises(InputError, match="answers with 2 classes, but images has 3"):
        alu.fit(Bright(), CLEAN.images, CLEAN.labels, classes=["a", "b", "c"], **QUICK)
    with pytest.raises(DataError, match="too few to split"):
        alu.fit(Bright(), CLEAN.images[:2], CLEAN.labels[:2], **QUICK)


def test_settings_that_do_nothing_are_named() -> None:
    with pytest.warns(AluWarning, match="epochs= and checkpoint= are for a VAE that is trained; blur trains none"):
        Plan(purifier="blur", epochs=3)
