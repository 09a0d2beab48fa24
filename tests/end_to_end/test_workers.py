"""Commands with --workers: the same output as without, in the same files, also after an interruption."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.command import ENVIRONMENT, alu, fresh
from tests.end_to_end.test_interrupts import furnished, interrupted


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return furnished(tmp_path_factory.mktemp("workers"))


def temporary() -> set[Path]:
    return set(Path("/tmp").glob("alu-*"))


def test_predict_by_two_processes_is_interrupted_and_goes_on_in_one(place: Path) -> None:
    """Code of the user's own reaches the workers; nothing but the partial answers is left behind."""
    before = temporary()
    words = ("predict", "defense", "pics", "--classifier", "slow:build", "--format", "jsonl", "--batch-size", 5)
    whole = alu(place, "predict", "defense", "pics", "--trust", "--format", "jsonl", "--batch-size", 5)
    partial = place / "cut.jsonl.partial"
    done = interrupted(
        place, *words, "--out", "cut.jsonl", "--workers", 2, number=signal.SIGTERM,
        when=lambda: partial.exists() and partial.stat().st_size > 0,
    )  # fmt: skip
    found = re.fullmatch(
        r"alu: Interrupted\. The answers for (\d+) of 140 files are in cut\.jsonl\.partial: run the same command again "
        r"to resume\.\n",
        done.err,
    )
    assert found, done
    assert (done.code, done.out) == (130, "")
    assert whole.out.startswith(partial.read_text()), "complete rows, in their order"
    again = alu(place, *words, "--out", "cut.jsonl")
    assert f"alu: {found[1]} of 140 answers were there already.\n" in again.err
    assert (place / "cut.jsonl").read_text() == whole.out
    assert temporary() <= before


def test_evaluate_by_two_processes_prints_the_same(place: Path) -> None:
    words = ("evaluate", "own:build", "--data", "pics", "--n", 6, "--budget", "quick", "--suite", "oblivious")
    one = alu(place, *words, "--out", "one.json")
    two = fresh(place, *words, "--out", "two.json", "--workers", 2)
    assert (two.code, two.err) == (one.code, one.err), two
    assert two.out == one.out.replace("one.json", "two.json")
    assert not (place / "two.json.work").exists()


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--workers", "0"), 2, "alu: --workers is a number of processes, at least 1; it was given 0."),
        (("--engine", "dask"), 2, "alu: There is no engine 'dask'. Known names: process, ray."),
        (
            ("--engine", "process", "--workers", "2"),
            2,
            "alu: --workers 2 is for --engine ray. Leave out --engine, or --workers.",
        ),
        (("--address", "ray://here:1"), 2, 'alu: The address of a Ray cluster is "auto" or HOST:PORT, such as'),
        (
            ("--address", "127.0.0.1:9"),
            1,
            "alu: There is no Ray cluster at 127.0.0.1:9 (Connection refused). Start one",
        ),
    ],
)
def test_wrong_words_are_one_sentence(place: Path, words: tuple[str, ...], code: int, sentence: str) -> None:
    done = alu(place, "certify", "own:build", "--data", "pics", "--n", 2, *words)
    assert done.sentence().startswith(sentence)
    assert done.code == code


def test_without_ray_one_sentence_names_the_extra(place: Path) -> None:
    code = "import sys; sys.modules['ray'] = None; sys.argv[0] = 'alu'; from alu.cli import main; main()"
    words = [sys.executable, "-c", code, "evaluate", "own:build", "--data", "pics", "--workers", "2"]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "alu: Work in several processes needs the package ray, which is not installed. In a checkout of alu, run: pip "
        "install -e '.[ray]'\n"
    )
