"""`alu fit` on something it has not seen: the README's second example, from pictures to answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alu import Defense, data
from alu.attacks import PGD
from alu.data.catalog import present
from tests.conftest import ROOT, use_all_cores

EXAMPLE = ROOT / "examples" / "fashion_mnist"


@pytest.mark.slow
def test_fit_on_fashion_mnist(tmp_path: Path) -> None:
    if not present("fashion-mnist"):
        pytest.skip("needs Fashion-MNIST's idx files: Debian's package dataset-fashion-mnist is not installed")
    for name in ("small_cnn.py", "prepare.py"):
        shutil.copy(EXAMPLE / name, tmp_path)

    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    alu = str(Path(sys.executable).with_name("alu"))
    run(sys.executable, "prepare.py")
    started = time.monotonic()
    run(alu, "fit", "--classifier", "small_cnn:build", "--data", "pictures", "--out", "defense")
    assert time.monotonic() - started <= 600, "ten minutes, the VAE's training included"

    sys.path.insert(0, str(tmp_path))
    try:
        defense = Defense.load(tmp_path / "defense", trust=True)
    finally:
        sys.path.remove(str(tmp_path))
    use_all_cores()
    test = data.folder(tmp_path / "pictures", "test", n=500)
    clean = defense.decide(test.images)
    bare = defense.logits(test.images).argmax(1)
    before = float((bare == test.labels).float().mean())
    after = float((clean.label == test.labels).float().mean())
    assert after >= before - 0.05, (before, after)
    assert float(clean.flagged.float().mean()) <= 0.02
    attacked = defense.decide(PGD(eps=8 / 255, steps=20)(defense.classifier, test.images, test.labels))
    detected = float(attacked.flagged.float().mean())
    assert detected >= 0.7, detected
    print(f"bare {before:.3f}, defended {after:.3f}, detected {detected:.3f}")

    answers = run(alu, "predict", "defense", "pictures/sandal", "--trust", "--format", "jsonl").splitlines()
    rows = [json.loads(line) for line in answers]
    assert len(rows) == len(list((tmp_path / "pictures" / "sandal").iterdir()))
    assert sum(row["class"] == "sandal" for row in rows) / len(rows) >= 0.85
