"""alu attack and alu evaluate, run as commands: on a stranger's classifier, killed in the middle, with wrong words."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.end_to_end.command import alu, fresh, snapshot, start
from tests.end_to_end.own_classifier import write_classifier, write_pictures

ON = ("--data", "pics", "--trust", "--budget", "quick")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    write_classifier(folder)
    write_pictures(folder / "pics")
    fitted = alu(
        folder, "fit", "--classifier", "own:build", "--data", "pics", "--false-alarm", 0.05, "--purifier", "blur",
        "--out", "defense",
    )  # fmt: skip
    assert fitted.code == 0, fitted
    count = 20
    images = np.random.default_rng(0).random((count, 16, 16, 3), dtype=np.float32)
    np.savez(folder / "own.npz", images=images, labels=np.arange(count) % 2)
    return folder


def outcome(path: Path) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(path.read_text())
    plain.pop("checksum")
    # Somebody may commit between two runs.
    bare = plain["bare"] or {"provenance": {"commit": ""}, "attacks": []}
    for part in (plain, bare):
        part["provenance"].pop("commit")
        for record in part["attacks"]:
            record.pop("seconds")
    return plain


def test_a_saved_defence_is_judged_and_the_page_made(place: Path, tmp_path: Path) -> None:
    done = fresh(place, "evaluate", "defense", *ON, "--out", tmp_path / "result.json")
    assert done.code == 0, done
    assert "robust accuracy" in done.out
    assert re.match(
        r"Against an attacker who knows it, this defence .*: bare .* %, defended .* % \(n = 14, p ", done.out
    )
    assert "\nharmless changes " in done.out
    assert f"alu report {tmp_path / 'result.json'}" in done.out
    page = alu(place, "report", tmp_path / "result.json", "--out", tmp_path / "page.html")
    assert page.code == 0, page
    assert (tmp_path / "page.html").stat().st_size > 10_000


def test_longer_budgets_say_how_long_and_strictness_has_its_code(place: Path, tmp_path: Path) -> None:
    # The same answers, and a gradient that points the other way.
    (place / "backwards.py").write_text(
        "import own, torch\n\n\nclass Backwards(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.inner = own.build()\n\n    def forward(self, images):\n"
        "        return self.inner(2 * images.detach() - images)\n"
    )
    words = ("evaluate", "backwards:Backwards", "--data", "pics", "--trust", "--n", 8)
    for extra, code in (((), 0), (("--strict",), 3)):
        done = alu(place, *words, "--budget", "quick", *extra, "--out", tmp_path / f"{code}.json")
        assert "diagnostic gradients-mislead: failed" in done.out
        assert done.code == code, done
        assert "minute" not in done.err
    longer = alu(place, "evaluate", "own:build", *ON[:3], "--n", 4, "--suite", "paper", "--budget", "standard",
                 "--out", tmp_path / "standard.json")  # fmt: skip
    assert "minute" in longer.err


def test_a_result_is_replaced_by_its_own_kind_only(place: Path, tmp_path: Path) -> None:
    words = (
        "evaluate",
        "own:build",
        *ON[:2],
        "--budget",
        "quick",
        "--suite",
        "oblivious",
        "--out",
        tmp_path / "r.json",
    )
    assert alu(place, *words).code in (0, 3)
    before = (tmp_path / "r.json").read_bytes()
    assert json.loads(before)["subject"]["name"] == "own:build"
    for change, says in (
        (("--eps", "4/255"), "eps was 8/255 and is now 4/255"),
        (("--seed", "1", "--n", "6"), "n was 14 and is now 6; seed was 0 and is now 1"),
        (
            ("--suite", "paper", "--budget", "full"),
            "suite was oblivious and is now paper; budget was quick and is now full",
        ),
        (("--shard", "1/1", "--norm", "L2"), "norm was Linf and is now L2"),
    ):
        assert f"{says}. It was not replaced." in alu(place, *words, *change).sentence().replace(
            "; threat model eps was 8/255 and is now 0.5", ""
        )
    assert (tmp_path / "r.json").read_bytes() == before
    assert alu(place, *words).code in (0, 3)


def test_the_usual_eps_of_a_norm(place: Path, tmp_path: Path) -> None:
    for norm, eps in (("Linf", 8 / 255), ("L2", 0.5)):
        words = ("evaluate", "own:build", "--data", "pics", "--budget", "quick", "--suite", "oblivious", "--norm", norm)
        done = alu(place, *words, "--out", tmp_path / f"{norm}.json")
        assert done.code in (0, 3), done
        assert json.loads((tmp_path / f"{norm}.json").read_text())["threat"]["eps"] == eps
        assert f"eps {'8/255' if norm == 'Linf' else '0.5'}," in done.out


def test_killed_in_the_middle_it_goes_on_to_the_same_result(place: Path, tmp_path: Path) -> None:
    words = ("evaluate", "defense", *ON, "--suite", "paper")
    whole = alu(place, *words, "--out", tmp_path / "whole.json")
    assert whole.code == 3, "the paper's suite is incomplete and says so"
    assert whole.out.startswith("INCOMPLETE")
    process = start(place, *words, "--out", tmp_path / "killed.json")
    block = tmp_path / "killed.json.work" / "block-0000.json"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not block.exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert block.exists()
    assert not (tmp_path / "killed.json").exists(), "killed too late to prove anything"
    again = alu(place, *words, "--out", tmp_path / "killed.json")
    assert again.code == 3, again
    assert outcome(tmp_path / "killed.json") == outcome(tmp_path / "whole.json")


@pytest.mark.parametrize("suffix", [".npz", ".pt", ""])
def test_adversarial_images_as_files(place: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"found{suffix}"
    done = alu(place, "attack", "own:build", "--data", "pics", "--set", "steps=3", "--out", out)
    assert done.code == 0, done
    assert "of 14 images are answered wrongly" in done.out
    if suffix == ".npz":
        found = np.load(out)
        assert found["images"].shape[0] == 14
        assert 0 <= found["images"].min() <= found["images"].max() <= 1
    if suffix == "":
        assert len(list(out.rglob("*.png"))) == 14


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("evaluate", "nothing"), "Unknown model or defence 'nothing'"),
        (("evaluate", "own:build", "--data", "pics", "--eps", "8"), "write eps=8/255"),
        (("evaluate", "own:build", "--data", "pics", "--eps", "8/x"), "--eps is a number or a fraction"),
        (("evaluate", "own:build", "--data", "pics", "--shard", "3/2"), "--shard is i/n with i from 1 to n"),
        (("evaluate", "own:build", "--data", "pics", "--suite", "papers"), "Did you mean paper?"),
        (("evaluate", "own:build", "--data", "pics", "--budget", "quik"), "Did you mean quick?"),
        (("evaluate", "own:build", "--data", "pics", "--norm", "L1"), "There is no norm 'L1'"),
        (("evaluate", "defense", "--data", "pics"), "--trust"),
        (("evaluate", "own:build_number", "--data", "pics"), "cannot be called as a classifier"),
        (("attack", "own:build", "--data", "pics", "--attack", "pdg", "--out", "x.npz"), "Did you mean pgd?"),
        (("attack", "own:build", "--data", "pics", "--set", "step=3", "--out", "x.npz"), "has no setting 'step'"),
        (
            ("attack", "own:build", "--data", "pics", "--set", "steps", "--out", "x.npz"),
            "expected KEY=VALUE, such as",
        ),
        (("attack", "own:build", "--data", "pics", "--attack", "decoy", "--out", "x.npz"), "Use PGD or AutoAttack"),
        (("attack", "own:build", "--data", "pics", "--out", "pics"), "is already there"),
        (("attack", "own:build", "--data", "own.npz", "--out", "own.npz"), "--out own.npz is already there. Choose"),
        (
            ("attack", "own:build", "--data", "own.npz", "--out", "new"),
            "has more than 8 bits per pixel; PNG would round the attack away",
        ),
        (("attack", "own:build", "--data", "pics", "--out", "found.csv"), ".csv is none of them"),
        (("attack", "own:build", "--data", "pics", "--out", "own.py/found.npz"), "own.py is not a folder you can"),
        (("attack", "own:build", "--data", "pics", "--set", "step_size=-1", "--out", "x.npz"), "step_size above 0"),
        (
            ("attack", "own:build", "--data", "pics", "--attack", "pattern", "--set", "penalties=[]", "--out", "x.npz"),
            "penalties of type Sequence[float]",
        ),
        (
            ("attack", "own:build", "--data", "pics", "--attack", "soft", "--set", "levels=3", "--out", "x.npz"),
            "levels",
        ),
        (("attack", "own:build", "--data", "pics", "--eps", "inf", "--out", "x.npz"), "--eps is a number or a"),
        (
            ("attack", "own:build_failing", "--data", "pics", "--out", "x.npz"),
            "failed on them: ValueError: no such side",
        ),
        (("evaluate", "own:build_failing", "--data", "pics"), "failed on them: ValueError: no such side"),
        (("evaluate", "own:build", "--data", "cifar10-sample"), "answers with 2 classes, but cifar10-sample has 10"),
        (("evaluate", "defense", "--data", "cifar10-sample", "--trust"), "reads images of 3 x 16 x 16"),
        (("evaluate", "cifar10-standard", "--data", "pics"), "cifar10-standard reads images of 3 x 32 x 32"),
        (("evaluate", "own:build", "--data", "pics", "--out", "defense"), "--out defense is a folder"),
        (("evaluate", "own:build", "--data", "pics", "--out", "own.npz"), "and is not a result of alu evaluate"),
        (("evaluate", "own.py:build", "--data", "pics"), "A module is written with dots, not as a path: own:build"),
        (("evaluate", "cifar10-standard", "--data", "sample"), "Did you mean cifar10-sample?"),
        (("evaluate", "cifar10-standard", "--size", "16"), "a size is only for folders"),
        (("evaluate", "cifar10-standard", "--root", "x"), "comes with the package"),
    ],
)
def test_bad_words_give_one_sentence_and_change_nothing(place: Path, words: tuple[str, ...], says: str) -> None:
    before = snapshot(place)
    assert says in alu(place, *words).sentence()
    assert snapshot(place) == before
