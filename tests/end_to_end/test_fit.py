"""alu fit, run as a command on a stranger's classifier and pictures."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import torch

from alu import Defense, data, models
from alu.evaluation.harmless import HARMLESS
from alu.fitting import fit
from alu.training.recipes import seeded
from tests.end_to_end.command import alu, fresh, snapshot
from tests.end_to_end.own_classifier import write_classifier, write_pictures

OWN = ("--classifier", "own:build", "--data", "pics", "--false-alarm", 0.05)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    write_classifier(folder)
    write_pictures(folder / "pics")
    return folder


def test_a_fresh_process_fits_and_answers(place: Path, tmp_path: Path) -> None:
    done = fresh(place, "fit", *OWN, "--out", tmp_path / "defense", "--epochs", 80)
    assert (done.code, done.unwarned) == (0, ""), done
    assert "PGD-20, 8/255 (does not know the defence)" in done.out
    assert f"alu predict {tmp_path / 'defense'} PICTURES --trust" in done.out
    answers = fresh(place, "predict", tmp_path / "defense", "pics", "--trust", "--format", "jsonl")
    assert answers.code == 0
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
    done = alu(tmp_path, "fit", *OWN, "--out", "defense", "--purifier", purifier, *training, "--force")
    assert (done.code, done.unwarned) == (0, ""), done
    facts = json.loads((tmp_path / "defense" / "defense.json").read_text())
    assert facts["shape"] == [channels, *shape]
    assert facts["classes"] == ["lying", "standing", "tiles"][:classes]
    two = ("pics/lying/000.png", "pics/standing/001.png")
    answers = alu(tmp_path, "predict", "defense", *two, "--trust", "--format", "jsonl")
    assert answers.code == 0
    assert [json.loads(line)["file"] for line in answers.out.splitlines()] == list(two)


@pytest.mark.filterwarnings("ignore:Harmless changes cost|This defence notices:alu.check.AluWarning")
def test_python_fits_the_same_defence(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert alu(place, "fit", *OWN, "--out", tmp_path / "defense", "--purifier", "pca", "--force").code == 0
    monkeypatch.chdir(place)
    monkeypatch.setattr(sys, "path", list(sys.path))
    saved = Defense.load(tmp_path / "defense", trust=True)
    monkeypatch.delitem(sys.modules, "own")
    pictures = data.folder(place / "pics")
    for images, labels in ((pictures, None), (pictures.images, pictures.labels)):
        fitted = fit(saved.classifier, images, labels, purifier="pca", false_alarm=0.05, force=True)
        here, there = (one.decide(pictures.images) for one in (fitted, saved))
        assert torch.equal(here.label, there.label)
        if labels is None:  # tensors have no name, and PCA sees them in another order
            assert torch.equal(here.p_value, there.p_value)


def test_a_vae_from_a_file_and_every_rule(place: Path, tmp_path: Path) -> None:
    vae = seeded(lambda: models.vae(latent=4, width=8), 0)
    card = models.Card("small", "vae", vae.architecture, "nothing", "none", "this test", "MIT", "")  # type: ignore[arg-type]
    path = models.save(vae, card, tmp_path)
    for rule, reference in (
        ("alu", "reconstruction"),
        ("abstain", "input"),
        ("purified", "input"),
        ("graded", "input"),
    ):
        words = ("--purifier", path, "--steps", 2, "--rule", rule, "--reference", reference)
        done = alu(place, "fit", *OWN, "--out", tmp_path / rule, *words, "--force")
        assert (done.code, done.unwarned) == (0, ""), done
        assert json.loads((tmp_path / rule / "defense.json").read_text())["rule"] == rule


def test_a_classifier_that_is_only_a_function(place: Path, tmp_path: Path) -> None:
    words = ("--classifier", "own:build_function", "--data", "pics", "--false-alarm", 0.05, "--purifier", "blur")
    done = alu(place, "fit", *words, "--out", tmp_path / "defense")
    assert (done.code, done.unwarned) == (0, ""), done
    assert "The classifier was not attacked: it has no gradient." in done.out
    assert "PGD" not in done.out
    assert alu(place, "predict", tmp_path / "defense", "pics/lying/000.png", "--trust").code == 0


def test_a_defence_is_replaced_and_nothing_is_left_beside_it(place: Path, tmp_path: Path) -> None:
    for purifier in ("blur", "median"):
        assert alu(place, "fit", *OWN, "--out", tmp_path / "defense", "--purifier", purifier).code == 0
    assert json.loads((tmp_path / "defense" / "defense.json").read_text())["purifier"]["name"] == "Median"
    assert sorted(snapshot(tmp_path)) == ["defense", "defense/defense.json", "defense/weights.safetensors"]


def test_options_that_do_nothing_are_named(place: Path, tmp_path: Path) -> None:
    done = alu(place, "fit", *OWN, "--out", tmp_path / "defense", "--purifier", "blur", "--epochs", 3)
    assert done.code == 0
    warning = "alu: warning: --epochs and --checkpoint are for a VAE that is trained; blur trains none.\n"
    assert done.err.startswith(warning)


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
    assert (done.code, done.unwarned) == (0, "")
    assert snapshot(place) == before


def test_everything_is_measured_and_shown_before_it_is_saved(place: Path, tmp_path: Path) -> None:
    done = alu(place, "fit", *OWN, "--out", tmp_path / "defense", "--purifier", "pca")
    assert done.code == 0, done
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.out.splitlines() if line[:1] == "│"]
    attack = "PGD-20, 8/255 (does not know the defence)"
    assert [row[0] for row in rows] == ["clean", attack, *(change.name for change in HARMLESS)]
    assert all(re.fullmatch(r"[\d.]+ % \[[\d.]+, [\d.]+\]", cell) for row in rows for cell in row[1:5])
    assert {row[5] for row in rows} == {"14"}, "a tenth of 140 pictures"
    narrow = alu(place, "fit", *OWN, "--out", tmp_path / "narrow", "--purifier", "pca", COLUMNS="80")
    assert max(len(line) for line in narrow.out.splitlines() if line[:1] in "┏┃┡│└") <= 80
    assert "95 % intervals are at most (in points) ± 23.2 at n = 14." in narrow.out


def test_a_harmful_defence_is_not_saved(place: Path, tmp_path: Path) -> None:
    vae = seeded(lambda: models.vae(latent=4, width=8), 0)
    card = models.Card("bad", "vae", vae.architecture, "nothing", "none", "this test", "MIT", "")  # type: ignore[arg-type]
    bad = ("--purifier", models.save(vae, card, tmp_path / "vae"), "--steps", 0)
    done = alu(place, "fit", *OWN, "--out", tmp_path / "defense", *bad)
    assert done.code == 1
    assert done.out.count("│ clean "), "the table comes first"
    (sentence,) = done.unwarned.splitlines()
    assert re.fullmatch(
        r"alu: This defence loses too many clean answers and is not kept: of 14 held-out images the classifier alone "
        r"is right on 100\.0 %, the defence on [\d.]+ %\. Try more latent --steps, or a VAE that is trained longer "
        r"\(--epochs\) or on more pictures\. --force keeps it all the same\.",
        sentence,
    )
    assert "Saved" not in done.out
    assert sorted(snapshot(tmp_path)) == ["vae", "vae/bad.json", "vae/bad.safetensors"]
    forced = alu(place, "fit", *OWN, "--out", tmp_path / "defense", *bad, "--force")
    assert (forced.code, forced.unwarned) == (0, "")
    assert (tmp_path / "defense" / "defense.json").exists()


def test_a_refused_vae_is_kept_for_force_and_makes_room_for_a_longer_training(place: Path, tmp_path: Path) -> None:
    words = ("fit", *OWN, "--out", tmp_path / "defense", "--steps", 0, "--rule", "alu")
    work = tmp_path / "defense.work"
    done = alu(place, *words, "--epochs", 1)
    assert done.code == 1, done
    assert done.unwarned.endswith(f"--force keeps it all the same. The trained VAE is kept in {work}.\n")
    kept = (work / "checkpoint.safetensors").stat()
    again = alu(place, *words, "--epochs", 2)
    assert again.code == 1
    warning = f"The VAE in {work} was trained with other settings (epochs was 1 and is now 2) and is trained again."
    assert again.err.startswith(f"alu: warning: {warning}\n")
    assert (work / "checkpoint.safetensors").stat().st_mtime_ns > kept.st_mtime_ns
    kept = (work / "checkpoint.safetensors").stat()
    refused = alu(place, *words, "--epochs", 2, "--rule", "purified")  # no setting of the training
    assert refused.code == 1
    assert (work / "checkpoint.safetensors").stat().st_mtime_ns == kept.st_mtime_ns, "nothing is trained again"
    forced = alu(place, *words, "--epochs", 2, "--force")
    assert (forced.code, forced.unwarned) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["defense"]


def test_a_folder_of_somebody_else_is_not_used_for_the_training(place: Path, tmp_path: Path) -> None:
    (tmp_path / "defense.work").mkdir()
    (tmp_path / "defense.work" / "thesis.txt").write_text("years of work")
    done = alu(place, "fit", *OWN, "--out", tmp_path / "defense")
    assert "is not a training of alu; the VAE's training would be kept there" in done.sentence()
    assert sorted(snapshot(tmp_path)) == ["defense.work", "defense.work/thesis.txt"]


def test_size_says_how_much_it_cuts_away(tmp_path: Path) -> None:
    write_classifier(tmp_path)
    write_pictures(tmp_path / "pics", shape=(16, 32))
    words = ("fit", *OWN, "--out", tmp_path / "defense", "--purifier", "blur")
    cut = alu(tmp_path, *words, "--size", "16")
    warning = "--size cuts more than a tenth of the picture away in 140 of 140 files; most in"
    assert cut.err.startswith(f"alu: warning: {warning} pics/lying/000.png, which loses 50 %.\n"), cut
    assert "cuts" not in alu(tmp_path, *words, "--size", "8x16").err


def test_a_checkpoint_of_ones_own_stays(place: Path, tmp_path: Path) -> None:
    words = ("fit", *OWN, "--epochs", 2, "--steps", 2, "--force", "--checkpoint", tmp_path / "kept")
    assert alu(place, *words, "--out", tmp_path / "defense").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["defense", "kept"]
    other = alu(place, *words, "--epochs", 3, "--out", tmp_path / "other")
    assert "belongs to another run: epochs was 2 and is now 3" in other.sentence()
