"""A defence in the real libraries: they see the logits and the gradient that our own attacks see."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from alu import Defense, ThreatModel
from alu.attacks import PGD
from alu.attacks.borrowed import borrow, undisturbed
from alu.detectors import LogitShift
from alu.errors import InputError, MissingExtraError, StorageError
from alu.integrations import export, load, to_art, to_autoattack, to_foolbox
from alu.purifiers import Blur
from tests.contracts.parts import LinearClassifier, images_like

SHAPE = (3, 8, 8)


@pytest.fixture
def defense() -> Defense:
    made = Defense(LinearClassifier(SHAPE, 5), Blur(0.6), LogitShift(0.1))
    return made.calibrate(images_like(40, SHAPE, seed=3))


def attacked(model: Defense) -> tuple[Tensor, Tensor]:
    images = images_like(6, SHAPE)
    with torch.no_grad():
        return images, model(images).argmax(1)


def gradient(model: Defense, images: Tensor, labels: Tensor) -> Tensor:
    at = images.clone().requires_grad_(True)
    return torch.autograd.grad(torch.nn.functional.cross_entropy(model(at), labels, reduction="sum"), at)[0]


def test_foolbox(defense: Defense) -> None:
    images, labels = attacked(defense)
    seen = to_foolbox(defense.train())
    assert not defense.training
    assert torch.equal(seen(images), defense(images))
    foolbox = borrow("foolbox", "test", "attacks")
    # One step of FGSM is the sign of the gradient.
    _, found, success = foolbox.attacks.FGSM(random_start=False)(seen, images, labels, epsilons=0.02)
    expected = (images + 0.02 * gradient(defense, images, labels).sign()).clamp(0, 1)
    torch.testing.assert_close(found, expected)
    assert torch.equal(success, defense(found).argmax(1) != labels)
    assert bool(success.any())


def test_art(defense: Defense) -> None:
    images, labels = attacked(defense)
    seen = to_art(defense, SHAPE, 5)
    np.testing.assert_allclose(seen.predict(images.numpy()), defense(images).detach().numpy(), rtol=1e-5)
    rows = np.eye(5, dtype=np.float32)[labels.numpy()]
    mean = gradient(defense, images, labels).numpy() / len(images)
    np.testing.assert_allclose(seen.loss_gradient(images.numpy(), rows), mean, rtol=1e-4, atol=1e-6)
    evasion = borrow("art.attacks.evasion", "test", "art")
    found = evasion.FastGradientMethod(seen, eps=0.02).generate(images.numpy(), rows)
    assert (defense(torch.from_numpy(found)).argmax(1) != labels).any()
    assert float(np.abs(found - images.numpy()).max()) <= 0.02 + 1e-6


def test_art_leaves_the_home_folder_alone(tmp_path: Path) -> None:
    code = (
        "import torch\nfrom alu.integrations import to_art\n"
        "to_art(torch.nn.Linear(2, 2), (2,), 2)\nimport os\nprint(os.environ['HOME'])"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env={**os.environ, "HOME": str(tmp_path)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"{tmp_path}\n"
    assert not (tmp_path / ".art").exists()


def test_pyautoattack(defense: Defense) -> None:
    images, labels = attacked(defense)
    attack = to_autoattack(defense, ThreatModel("Linf", 0.02), 5, seed=1)
    assert attack.apgd_targeted.n_target_classes == attack.fab.n_target_classes == 4
    attack.attacks_to_run = ["apgd-ce", "fab-t"]
    with undisturbed():
        found, answers = attack.run_standard_evaluation(images, labels)
    assert torch.equal(defense(found).argmax(1), answers)
    assert (answers != labels).any()
    few = to_autoattack(defense, ThreatModel("Linf", 0.02), 2)
    assert few.attacks_to_run == ["apgd-ce", "fab-t", "square"]


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("foolbox", lambda: to_foolbox(torch.nn.Linear(2, 2))),
        ("art", lambda: to_art(torch.nn.Linear(2, 2), (2,), 2)),
        ("pyautoattack", lambda: to_autoattack(torch.nn.Linear(2, 2), ThreatModel(), 2)),
    ],
)
def test_a_missing_library_is_one_sentence(monkeypatch: pytest.MonkeyPatch, package: str, call: object) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package] + [package]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf"needs the package {package}.*pip install -e '\.\["):
        call()  # type: ignore[operator]


def test_robustbench_layout(defense: Defense, tmp_path: Path) -> None:
    images, labels = attacked(defense)
    found = PGD(steps=3)(defense, images, labels)
    export(tmp_path / "advs.pt", found[:4], labels[:4])
    layout = torch.load(tmp_path / "advs.pt", weights_only=True)
    assert isinstance(layout, Tensor)
    assert layout.dtype == torch.float32
    assert torch.equal(layout, found[:4])
    assert (tmp_path / "advs.pt").stat().st_size < 2 * layout.numel() * 4, "a view brings its whole storage along"
    again, named = load(tmp_path / "advs.pt")
    assert torch.equal(again, found[:4])
    assert named is not None
    assert torch.equal(named, labels[:4])
    export(tmp_path / "plain.pt", found.double())
    again, named = load(tmp_path / "plain.pt")
    assert named is None
    assert torch.equal(again, found)


def test_wrong_files_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Divide by 255"):
        export(tmp_path / "a.pt", 255 * images_like(2, SHAPE))
    torch.save({"adv": torch.zeros(2)}, tmp_path / "dict.pt")
    with pytest.raises(StorageError, match="holds dict, not one tensor"):
        load(tmp_path / "dict.pt")
    torch.save(Path("x"), tmp_path / "code.pt")
    with pytest.raises(StorageError, match="is not a tensor"):
        load(tmp_path / "code.pt")
    with pytest.raises(StorageError, match="Cannot read"):
        load(tmp_path / "missing.pt")
