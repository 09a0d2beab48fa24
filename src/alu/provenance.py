"""Provenance: the facts that every measured number carries."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import alu


def provenance(seed: int) -> dict[str, Any]:
    """Commit, versions, processor, threads and seed, as plain values."""
    import torch

    return {
        "alu": alu.__version__,
        "commit": commit(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "seed": seed,
    }


def commit() -> str:
    """The commit of the checkout this package is imported from, with "+" if it was changed since, or "unknown"."""
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, check=True).stdout

    try:
        # Only a checkout of this package counts, not some other repository that a virtual environment lies in.
        top = Path(git("rev-parse", "--show-toplevel").strip())
        if here != top / "src" / "alu":
            return "unknown"
        return git("rev-parse", "--short=12", "HEAD").strip() + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def processor() -> str:
    """The processor's name and number of cores."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {os.cpu_count()} cores"
