"""README, docs and page say what the committed results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from alu import models
from alu.experiments.bpda import SYSTEMS
from alu.experiments.catalog import EXPERIMENTS
from alu.experiments.material import Material
from alu.experiments.table3 import ROWS
from alu.report.paper.results import Results, read, share
from alu.report.paper.writing import texts

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "path", ["README.md", "docs/claims.md", "docs/table2.svg", "docs/zoo.md", "results/paper.html"]
)
def test_generated_text_is_up_to_date(path: str) -> None:
    wanted = texts(ROOT)[ROOT / path]
    assert (ROOT / path).read_text(encoding="utf-8") == wanted, (
        f"{path} disagrees with results/. Run: python -m alu.report.paper.writing"
    )


def test_results_are_of_the_sizes_and_say_what_the_experiment_says_today() -> None:
    for path in sorted((ROOT / "results").glob("*.json")):
        experiment, kept = EXPERIMENTS[path.stem], read(path)
        said = (kept["sizes"], kept["differs"], kept["why"], kept["quick"])
        assert said == (experiment.full, experiment.differs, experiment.why, False), path.name


EXPLAINED: dict[tuple[str, str], str] = {}
"""Defences that keep more than the bare classifier under every attack, and the heading of the lab log that says why."""


def test_no_defence_keeps_more_than_its_classifier_unless_the_lab_log_says_why() -> None:
    results, log = Results.open(ROOT / "results"), (ROOT / "docs" / "lab-log.md").read_text(encoding="utf-8")
    pairs: list[tuple[str, str, str, str]] = []
    for reading in ("input", "reconstruction", "purified"):
        for name, key in (("threats", f"{reading}/adaptive"), ("threats", "bare/adaptive")):
            assert results.found(name, key), "the card is always there"
        two = [results.need("threats", f"{which}/adaptive")["adaptive"] for which in (reading, "bare")]
        pairs.append(("threats", reading, two[0], two[1]))
        for key in [key for key in results.cells("table2") if key.endswith(f"/adaptive, {reading}")]:
            classifier = key.split("/")[0]
            pairs.append((key, reading, results.standing(classifier, reading), results.standing(classifier, "bare")))
    for reading in ("input", "purified"):
        two = [results.need("table1", f"adaptive, {which}")["adaptive"] for which in (reading, "bare")]
        pairs.append(("table1", reading, two[0], two[1]))
    for row, (classifier, _, reading) in ROWS.items():
        key = f"{row}/adaptive"
        if results.found("table3", key) and row not in ("Adversarial training alone", "AWP"):  # these are bare
            left = results.need("table3", key)["adaptive"]
            pairs.append((f"table3, {key}", reading, left, results.standing(classifier, "bare")[: len(left)]))
    for system, (classifier, _) in SYSTEMS.items():
        for reading in ("input", "reconstruction", "purified"):
            if system != "asymmetric" and results.found("bpda", f"{system}, {reading}/adaptive"):
                left = results.together(f"{system}, {reading}")
                pairs.append((f"bpda, {system}", reading, left, results.standing(classifier, "bare")[: len(left)]))
    assert pairs
    for where, reading, defended, bare in pairs:
        if share(defended).value > share(bare).interval[1]:
            assert (where, reading) in EXPLAINED, f"{where}, {reading}: more than the bare classifier keeps"
            assert f"## {EXPLAINED[where, reading]}" in log


def test_results_are_of_the_bundled_weights_and_of_today_s_committed_code() -> None:
    wrong = []
    for path in sorted((ROOT / "results").glob("*.json")):
        experiment = EXPERIMENTS[path.stem]
        versions = {cell.key: cell.version for cell in experiment.cells(Material(experiment.full))}
        for key, record in read(path)["cells"].items():
            if "found" in record and record.get("version", 1) != versions.get(key):
                wrong.append(f"{path.name}, {key}: measured by another version of the experiment")
            for name, known in record.get("weights", {}).items():
                if models.card(name).sha256[:12] != known:
                    wrong.append(f"{path.name}, {key}: measured with other weights of {name}")
            if record.get("commit", "").endswith("+") or record.get("commit") == "unknown":
                wrong.append(f"{path.name}, {key}: measured with code that was not committed")
    assert wrong == []
