"""Which code a number comes from."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import alu

SOURCE = Path(alu.__file__).parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of its own with the two files that name a commit."""
    package = tmp_path / "src" / "alu"
    package.mkdir(parents=True)
    for name in ("__init__.py", "provenance.py"):
        shutil.copy(SOURCE / name, package)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    return tmp_path


def commit_of(place: Path) -> str:
    code = f"import sys; sys.path.insert(0, {str(place / 'src')!r}); from alu.provenance import commit; print(commit())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_changed_checkout_says_so(checkout: Path) -> None:
    clean = commit_of(checkout)
    assert len(clean) == 12
    (checkout / "notes.txt").write_text("not code")
    assert commit_of(checkout) == clean, "only the package's own files count"
    with (checkout / "src" / "alu" / "provenance.py").open("a") as file:
        file.write("# changed\n")
    assert commit_of(checkout) == clean + "+"


def test_another_repository_is_not_ours(checkout: Path) -> None:
    inside = checkout / "venv"
    shutil.copytree(checkout / "src" / "alu", inside / "alu")
    code = f"import sys; sys.path.insert(0, {str(inside)!r}); from alu.provenance import commit; print(commit())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "unknown"
