"""A defence for tests of the page, which loads quickly, and `alu serve` as a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import alu

ROOT = Path(__file__).parents[2]


def small() -> alu.Defense:
    """A bundled classifier behind PCA, calibrated on 400 pictures."""
    torch.set_num_threads(1)
    defense = alu.Defense(
        alu.models.load("cifar10-standard"), alu.purifiers.PCA.bundled("cifar10-pca"), alu.detectors.LogitShift()
    )
    calibration = alu.data.sample("calibration")
    defense.calibrate(calibration.images[:400])
    defense.classes = calibration.classes
    return defense


@contextmanager
def served(*options: str, seconds: float = 120.0) -> Iterator[str]:
    """The address of a service that answers with `small`; it is ended afterwards."""
    command = [sys.executable, "-m", "alu", "serve", f"{__name__}:small", "--trust", "--port", "0", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert process.stderr is not None
    said, address, until = "", "", time.monotonic() + seconds
    try:
        for line in process.stderr:
            said += line
            if found := re.search(r"listening on (http://\S+)", line):
                address = found[1]
            if "ready" in line:
                break
            assert time.monotonic() < until, said
        assert address, said
        yield address
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()
