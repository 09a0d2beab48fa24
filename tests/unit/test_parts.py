"""Parts: described from their constructors, made again, and those of the user's own saved and loaded by import path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from alu import Defense
from alu.attacks import Attack
from alu.attacks.catalog import make_attack
from alu.detectors import Detector, LogitShift
from alu.errors import UntrustedError, UsageError
from alu.parts import settings_of
from alu.purifiers import Blur, Chain, Hedge, InnerVAE, LatentVAE, Purifier
from tests.contracts.parts import LinearClassifier, images_like, small_vae

SHAPE = (3, 16, 16)
OWN = '''
import torch
import torch.nn.functional as F
from alu.attacks import Attack
from alu.detectors import Detector
from alu.purifiers import Purifier


class Mosaic(Purifier):
    """Replaces every block of pixels by its mean, brightened by what it has learned."""

    def __init__(self, size=2):
        super().__init__()
        self.size = size
        self.register_buffer("light_", torch.tensor(0.01))

    def run(self, images):
        return F.interpolate(F.avg_pool2d(images, self.size), scale_factor=float(self.size)) + self.light_


class Brighter(Attack):
    """Every pixel as bright as it may become."""

    def __init__(self, *, share=1.0, **common):
        super().__init__(**common)
        self.share = share

    def run(self, model, images, labels, numbers):
        return images + self.share * self.eps


class Largest(Detector):
    """The largest change of any logit."""

    def score(self, evidence):
        return evidence.change.abs().amax(1)
'''
FRESH = """
import sys, torch, alu
torch.set_num_threads(1)
from torch import nn
from tests.contracts.parts import LinearClassifier, images_like
defense = alu.Defense.load("saved", classifier=LinearClassifier((3, 16, 16), 5), trust=True)
decision = defense.decide(images_like(6, (3, 16, 16), seed=3))
print(type(defense.purifier).__module__, defense.purifier.size, round(float(decision.score.sum()), 4))
"""


def test_settings_are_those_of_the_constructor() -> None:
    assert list(settings_of(Blur)) == ["sigma"]
    assert list(settings_of(LogitShift)) == ["false_alarm", "per_class"]
    assert list(settings_of(Hedge)) == ["classifier", "eps", "steps", "step_size", "seed"]
    assert set(settings_of(InnerVAE)) == set(settings_of(LatentVAE)), "what it passes on with ** is its parent's"


def own_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> type[Purifier]:
    (folder / "own_parts.py").write_text(OWN)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "own_parts", raising=False)
    import own_parts  # type: ignore[import-not-found]

    made: type[Purifier] = own_parts.Mosaic
    return made


def test_parts_of_the_users_own_are_loaded_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mosaic = own_module(tmp_path, monkeypatch)
    largest: type[Detector] = sys.modules["own_parts"].Largest
    purifier = Chain(Blur(0.5), mosaic(4))
    classifier = LinearClassifier(SHAPE, 5)
    defense = Defense(classifier, mosaic(4), largest(0.05)).calibrate(images_like(40, SHAPE))
    defense.purifier.light_ += 0.02
    defense.save(tmp_path / "saved")
    expected = defense.decide(images_like(6, SHAPE, seed=3)).score.sum()
    with pytest.raises(UntrustedError, match="the purifier own_parts:Mosaic, which runs that code.*trust=True"):
        Defense.load(tmp_path / "saved", classifier=classifier)
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", FRESH], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": f"{root}/src:{root}", "PATH": ""},
    )  # fmt: skip
    assert done.stdout.split() == ["own_parts", "4", f"{round(float(expected), 4)}"]
    again = Purifier.rebuild(purifier.description(), trust=True)
    images = images_like(4, SHAPE)
    assert torch.equal(again(images), purifier(images)), "inside a part of the package too"
    with pytest.raises(UntrustedError):
        Purifier.rebuild(purifier.description())


def test_an_attack_of_the_users_own_is_made_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_module(tmp_path, monkeypatch)
    attack = make_attack("own_parts:Brighter", trust=True, share=0.5, eps=0.1)
    images = images_like(3, SHAPE) / 2
    moved = attack(LinearClassifier(SHAPE, 5), images, torch.zeros(3, dtype=torch.int64))
    torch.testing.assert_close(moved, images + 0.05)
    again = Attack.rebuild(attack.description(), trust=True)
    assert torch.equal(again(LinearClassifier(SHAPE, 5), images, torch.zeros(3, dtype=torch.int64)), moved)
    with pytest.raises(UntrustedError, match="the attack own_parts:Brighter"):
        make_attack("own_parts:Brighter")


def test_a_part_that_no_other_process_could_import_is_not_saved(tmp_path: Path) -> None:
    class Local(Blur):
        pass

    defense = Defense(LinearClassifier(SHAPE, 5), Local(), rule="purified")
    with pytest.raises(UsageError, match="Local cannot be saved: .*test_parts.* Move the class into a file"):
        defense.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_what_cannot_be_described_is_one_sentence() -> None:
    class Forgets(Purifier):
        def __init__(self, size: int = 2) -> None:
            super().__init__()

        def run(self, images: Tensor) -> Tensor:
            return images

    class Codec(torch.nn.Module):
        def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
            return images, images

        def decode(self, code: Tensor) -> Tensor:
            return code

    with pytest.raises(UsageError, match=r"takes 'size', but the object has no attribute.*self.size = size"):
        Forgets().description()
    with pytest.raises(UsageError, match="LatentVAE around Codec cannot be saved"):
        LatentVAE(Codec()).description()


@pytest.mark.parametrize(
    ("description", "sentence"),
    [
        ({"name": "Blurr"}, "alu has no purifier 'Blurr'. Did you mean Blur"),
        ({"name": "os:getcwd"}, "os:getcwd is not a purifier"),
        ({"name": "no_such_module:Thing"}, "Cannot import no_such_module for the purifier .* PYTHONPATH"),
        ({"name": "alu.purifiers:Nothing"}, "alu.purifiers has no Nothing"),
    ],
)
def test_unknown_parts_are_one_sentence(description: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Purifier.rebuild(description, trust=True)


def test_a_changed_setting_is_the_one_that_is_saved() -> None:
    purifier = LatentVAE(small_vae(SHAPE), steps=7)
    purifier.steps = 3
    again = Purifier.rebuild(purifier.description())
    assert isinstance(again, LatentVAE)
    assert again.steps == 3
