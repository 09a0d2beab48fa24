"""alu certify: a table, a file that resumes, and wrong words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.end_to_end.command import alu, snapshot
from tests.end_to_end.own_classifier import write_classifier, write_pictures

ON = ("own:build", "--data", "pics", "--sigma", 0.05, "--first", 10)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certify")
    write_classifier(folder)
    write_pictures(folder / "pics")
    (folder / "notes.json").write_text("{}")
    return folder


def test_certified_accuracy_by_radius(place: Path) -> None:
    done = alu(place, "certify", *ON, "--samples", 200, "--n", 6)
    assert done.code == 0, done
    assert "certified and right" in done.out
    assert "n = 6; half of the images needed at most 210 samples." in done.out


def test_one_radius_stops_early_and_resumes(place: Path, tmp_path: Path) -> None:
    words = ("certify", *ON, "--samples", 2000, "--radius", 0.02, "--out", tmp_path / "proofs.json")
    done = alu(place, *words)
    assert done.code == 0, done
    assert "never wrong within 0.04 (proven RAR)" in done.out
    whole = json.loads((tmp_path / "proofs.json").read_text())
    rows = whole["certificates"]
    assert min(row["samples"] for row in rows) < 2010
    assert all(row["radius"] >= 0.02 or row["label"] == -1 for row in rows)
    again = alu(place, *words)
    assert (again.code, again.out) == (0, done.out)
    other = alu(place, *words, "--seed", 1)
    assert "proofs.json was made with another" in other.sentence()


def test_a_classifier_behind_a_denoiser(place: Path) -> None:
    words = ("certify", "cifar10-standard", "--n", 2, "--samples", 60, "--first", 10, "--denoiser", "cifar10-vae")
    done = alu(place, *words)
    assert done.code == 0, done
    assert "n = 2; half of the images needed at most 70 samples." in done.out


BAD = {
    "sigma": (("--sigma", 0), "sigma above 0"),
    "radius": (("--samples", 50, "--radius", 9), "can prove a radius of at most 0.0"),
    "alpha": (("--alpha", 2), "alpha between 0 and 1"),
    "out": (("--out", "proofs.txt"), "certificates are written as .json"),
    "denoiser": (("--denoiser", "cifar10-denoyser"), "There is no bundled model 'cifar10-denoyser'"),
    "not ours": (("--out", "notes.json"), "notes.json is already there and is not certificates of alu certify"),
}


@pytest.mark.parametrize("case", BAD)
def test_one_sentence_and_nothing_changed(place: Path, case: str) -> None:
    words, expected = BAD[case]
    before = snapshot(place)
    done = alu(place, "certify", *ON, "--n", 2, *words)
    assert expected in done.sentence()
    assert snapshot(place) == before
