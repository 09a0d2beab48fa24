"""alu fit, run as a command on a stranger's classifier and pictures."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from alu import models
from alu.training.recipes import seeded
from tests.end_to_end.command import alu, fresh, snapshot, start
from tests.end_to_end.own_classifier import write_classifier, write_pictures

OWN = ("--classifier", "own:build", "--data", "pics", "--false-alarm", 0.05)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_classifier(folder)
    write_pictures(folder / "pics")
    return folder


def test_a_fresh_process_fits_and_answers(place: Path, tmp_path: Path) -> None:
    done = fresh(place, "fit", *OWN, "--out", tmp_path / "defense", "--epochs", 20)
    assert (done.code, done.err) == (0, ""), done
    assert "defence is right" in done.out
    assert f"alu predict {tmp_path / 'defense'} PICTURES --trust" in done.out
    answers = fresh(place, "predict", tmp_path / "defense", "pics", "--trust", "--format", "jsonl")
    assert (answers.code, answers.err) == (0, "")
    rows = [json.loads(line) for line in answers.out.splitlines()]
    assert len(rows) == 140
    right = sum(row["class"] == Path(row["file"]).parent.name for row in rows)
    assert right >= 120
    assert sum(row["flagged"] for row in rows) <= 35


@pytest.mark.parametrize(
    ("purifier", "channels", "shape", "classes"),
    [
        ("pca", 1, (28, 28), 2),
        ("vae", 1, (28, 28), 2),
        ("blur", 4, (32, 32), 3),
        ("vae", 4, (16, 32), 3),
        ("vae", 3, (18, 27), 2),
        ("pca", 3, (20, 12), 3),
        ("jpeg", 3, (64, 64), 2),
        ("median", 1, (9, 33), 3),
    ],
)
def test_any_kind_of_pictures(
    purifier: str, channels: int, shape: tuple[int, int], classes: int, tmp_path: Path
) -> None:
    write_classifier(tmp_path, channels, classes)
    write_pictures(tmp_path / "pics", channels, classes, shape, each=140 // classes)
    training = ("--epochs", 1) if purifier == "vae" else ()
    done = alu(tmp_path, "fit", *OWN, "--out", "defense", "--purifier", purifier, *training)
    assert (done.code, done.err) == (0, ""), done
    facts = json.loads((tmp_path / "defense" / "defense.json").read_text())
    assert facts["shape"] == [channels, *shape]
    assert facts["classes"] == ["lying", "standing", "tiles"][:classes]
    two = ("pics/lying/000.png", "pics/standing/001.png")
    answers = alu(tmp_path, "predict", "defense", *two, "--trust", "--format", "jsonl")
    assert (answers.code, answers.err) == (0, "")
    assert [json.loads(line)["file"] for line in answers.out.splitlines()] == list(two)


def test_a_vae_from_a_file_and_every_rule(place: Path, tmp_path: Path) -> None:
    vae = seeded(lambda: models.vae(latent=4, width=8), 0)
    card = models.Card("small", "vae", vae.architecture, "nothing", "none", "this test", "MIT", "")  # type: ignore[arg-type]
    path = models.save(vae, card, tmp_path)
    for rule, reference in (("alu", "reconstruction"), ("abstain", "input"), ("purified", "input")):
        words = ("--purifier", path, "--steps", 2, "--rule", rule, "--reference", reference)
        done = alu(place, "fit", *OWN, "--out", tmp_path / rule, *words)
        assert (done.code, done.err) == (0, ""), done
        assert json.loads((tmp_path / rule / "defense.json").read_text())["rule"] == rule


def test_a_classifier_that_is_only_a_function(place: Path, tmp_path: Path) -> None:
    words = ("--classifier", "own:build_function", "--data", "pics", "--false-alarm", 0.05, "--purifier", "blur")
    done = alu(place, "fit", *words, "--out", tmp_path / "defense")
    assert (done.code, done.err) == (0, ""), done
    assert alu(place, "predict", tmp_path / "defense", "pics/lying/000.png", "--trust").code == 0


def test_a_defence_is_replaced_and_nothing_is_left_beside_it(place: Path, tmp_path: Path) -> None:
    for purifier in ("blur", "median"):
        assert alu(place, "fit", *OWN, "--out", tmp_path / "defense", "--purifier", purifier).code == 0
    assert json.loads((tmp_path / "defense" / "defense.json").read_text())["purifier"]["name"] == "Median"
    assert sorted(snapshot(tmp_path)) == ["defense", "defense/defense.json", "defense/weights.safetensors"]


def test_options_that_do_nothing_are_named(place: Path, tmp_path: Path) -> None:
    done = alu(place, "fit", *OWN, "--out", tmp_path / "defense", "--purifier", "blur", "--epochs", 3)
    assert done.code == 0
    assert done.err == "alu: warning: --epochs and --checkpoint are for a VAE that is trained; blur trains none.\n"


def test_224_pixels_work_or_are_refused_with_their_cost(place: Path, tmp_path: Path) -> None:
    before = snapshot(place)
    words = ("--out", tmp_path / "defense", "--size", 224)
    done = alu(place, "fit", *OWN, *words, "--max-minutes", 0.5)
    assert done.code == 2
    sentence = done.sentence()
    assert "224 x 224" in sentence
    minutes = float(sentence.split("about ")[1].split(" minutes")[0])
    assert 0.5 < minutes < 10_000
    assert minutes < float(sentence.split("--max-minutes ")[1].split(",")[0]) < 2 * minutes
    assert not list(tmp_path.iterdir())
    done = alu(place, "fit", *OWN, *words, "--purifier", "blur")
    assert (done.code, done.err) == (0, "")
    assert snapshot(place) == before


def interrupted_once_there(process: object, path: Path) -> tuple[int, str]:
    """Ctrl-C as soon as a file is there; exit code and standard error."""
    assert hasattr(process, "send_signal")
    for _ in range(600):
        if path.exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)  # type: ignore[attr-defined]
    return process.returncode, err  # type: ignore[attr-defined]


def listening() -> None:
    # A test run in the background would hand down that SIGINT is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_and_resume(place: Path, tmp_path: Path) -> None:
    whole, resumed, kept = tmp_path / "whole", tmp_path / "resumed", tmp_path / "kept"
    words = ("fit", *OWN, "--epochs", 25)
    assert alu(place, *words, "--out", whole).code == 0
    process = start(place, *words, "--out", resumed, "--checkpoint", kept, preexec_fn=listening)
    code, err = interrupted_once_there(process, kept / "checkpoint.safetensors")
    assert code == 130
    assert err == (
        f"alu: Interrupted. {resumed} was not written. The training up to the last checkpoint is in {kept}: "
        "run the command again to go on.\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "whole"]
    done = alu(place, *words, "--out", resumed, "--checkpoint", kept)
    assert (done.code, done.err) == (0, ""), done
    ours, theirs = load_file(resumed / "weights.safetensors"), load_file(whole / "weights.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)
    other = alu(place, "fit", *OWN, "--epochs", 26, "--out", tmp_path / "other", "--checkpoint", kept)
    assert "belongs to another run: epochs was 25 and is now 26" in other.sentence()


def test_ctrl_c_without_a_checkpoint_leaves_nothing(place: Path, tmp_path: Path) -> None:
    before = snapshot(place)
    # The module says when it is imported, so that the signal comes in the middle of the work.
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\n"
        "def build():\n    pathlib.Path('ready').touch()\n    time.sleep(60)\n"
    )  # fmt: skip
    words = ("fit", "--classifier", "slow:build", "--data", place / "pics", "--out", "deep/defense")
    process = start(tmp_path, *words, preexec_fn=listening)
    code, err = interrupted_once_there(process, tmp_path / "ready")
    assert (code, err) == (130, "alu: Interrupted. deep/defense was not written.\n")
    assert sorted(snapshot(tmp_path)) == ["ready", "slow.py"]
    assert snapshot(place) == before
