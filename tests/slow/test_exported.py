"""An exported defence in an environment of its own, which has NumPy and onnxruntime and no torch."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import alu
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

ANSWER = """
import json, sys
from importlib.util import find_spec
assert find_spec("torch") is None and find_spec("onnx") is None
import numpy as np
import alu
made = alu.exported.load(sys.argv[1], threads=1)
made.calibrate(np.load(sys.argv[2]))
made.save(sys.argv[1])
decision = alu.exported.load(sys.argv[1], threads=1).decide(np.load(sys.argv[3]))
print(alu.__file__, json.dumps(decision.to_dict()), sep="\\n")
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with the package, without what the package depends on."""
    folder = tmp_path_factory.mktemp("environment")
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    for words in (("numpy", "onnxruntime"), ("--no-deps", source)):
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"pip could not install {words[0]} into a new environment: {done.stderr[-300:]}")
    return python


def test_answers_in_an_environment_without_torch(python: Path, tmp_path: Path) -> None:
    clean, images = alu.data.sample("calibration").images[:300], alu.data.sample("test").images[:50]
    purifier = alu.purifiers.LatentVAE("cifar10-vae", steps=5)
    defense = alu.Defense(alu.models.load("cifar10-standard"), purifier, alu.detectors.LogitShift(), "graded")
    alu.export(defense.calibrate(clean), tmp_path / "export")
    np.save(tmp_path / "clean.npy", clean.numpy())
    np.save(tmp_path / "images.npy", images.numpy())
    words = [python, "-c", ANSWER, tmp_path / "export", tmp_path / "clean.npy", tmp_path / "images.npy"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, cwd=tmp_path, env={})
    assert done.returncode == 0, done.stderr
    place, answers = done.stdout.splitlines()
    assert str(python.parents[1]) in place
    found, truth = json.loads(answers), defense.decide(images).to_dict()
    for name in ("label", "accepted", "flagged", "state"):
        assert found[name] == truth[name], name
    np.testing.assert_allclose(found["p_value"], truth["p_value"], atol=2 / 301)
