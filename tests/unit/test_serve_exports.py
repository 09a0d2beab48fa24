"""An exported defence as an engine: the same decisions, over HTTP too, without torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import alu
from alu import exported
from alu.data import Dataset
from alu.errors import UsageError
from alu.serve.exports import ExportedEngine, refuse_settings
from alu.state import State
from tests.serving import running


@pytest.fixture(scope="module")
def folder(saved_pca: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("exported") / "export"
    alu.export(alu.Defense.load(saved_pca), place)
    return place


def test_it_decides_as_the_export_does(folder: Path, sample: Dataset) -> None:
    engine, some = ExportedEngine(folder), sample.draw(20)
    answers = engine.decide(some.pixels.numpy(), purified=True)
    decision = exported.load(folder).decide(some.images.numpy())
    for name in ("label", "accepted", "flagged", "score", "p_value", "pre_logits", "post_logits", "purified"):
        assert np.array_equal(getattr(answers, name), getattr(decision, name)), name
    assert list(answers.state) == [State(int(one)).word for one in decision.state]
    assert engine.decide(some.pixels.numpy()).purified is None


def test_it_says_what_it_is(folder: Path, saved_pca: Path) -> None:
    engine, defense = ExportedEngine(folder), alu.Defense.load(saved_pca)
    assert engine.shape == defense.shape
    assert engine.classes == defense.classes
    assert engine.facts["rule"] == defense.rule
    assert defense.detector is not None
    assert engine.facts["threshold"] == pytest.approx(float(defense.detector.threshold_), rel=1e-6)
    assert engine.clean_scores is not None
    assert len(engine.clean_scores) == len(defense.detector.scores_)
    assert len(engine.model) == len(engine.calibration) == 64
    with running(lambda: ExportedEngine(folder)) as service:
        assert service.ask("GET", "/v1/model").json["settings"]["rule"] == defense.rule
        assert service.ask("GET", "/v1/playground").json["on"] is False


def test_what_an_export_has_inside_cannot_be_set() -> None:
    refuse_settings(Path("x"), None, "cpu")
    with pytest.raises(UsageError, match="is an export"):
        refuse_settings(Path("x"), "my_module:build", "cpu")
    with pytest.raises(UsageError, match="is an export"):
        refuse_settings(Path("x"), None, "cuda")


def test_it_is_served_without_torch(folder: Path) -> None:
    code = (
        "import sys\nsys.modules['torch'] = None\nfrom pathlib import Path\nimport numpy as np\n"
        "from alu.serve.app import build\nfrom alu.serve.exports import ExportedEngine\n"
        "engine = ExportedEngine(Path(sys.argv[1]))\n"
        "print(len(engine.decide(np.zeros((3, *engine.shape), np.uint8)).label))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr
