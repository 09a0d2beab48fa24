"""The benchmarks run, and report what the documents quote."""

from __future__ import annotations

import shutil

import pytest
from bench import export, large_pictures, latency, predict, refusal, serve, sizing, workers

from alu import Decision, Defense, data, models
from alu.purifiers import Blur


def test_latency_has_a_ratio_for_each_number_of_steps() -> None:
    found = latency.measure(1, 1)["ratio_to_classifier"]
    assert isinstance(found, dict)
    assert found["classifier"] == 1.0
    assert [name for name in found if name.startswith("VAE")] == [f"VAE + ALU, N={steps}" for steps in latency.STEPS]


def test_refusal_counts_passes_of_answered_and_refused_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "BATCH", 6)
    found = refusal.check(data.sample("test").draw(20).images, 1)
    # One pass for the answer, one for each step and the last point.
    assert (found["answered"]["forwards"], found["answered"]["backwards"]) == (12, 10)
    assert found["refused"]["backwards"] < found["answered"]["backwards"]


def test_export_compares_times_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "BATCHES", (1, 2))
    found = export.measure("blur", Blur(0.5), repeats=1, threads=1, count=20, n=40)
    assert [row["batch"] for row in found["speed"]] == [1, 2]
    assert all(row["ratio"] > 0 for row in found["speed"])
    close = found["closeness"]["clean scores of onnxruntime"]
    assert close["other label"] == close["other state"] == close["post_logits, above 0.001"] == 0
    assert export.apart(*(_decided(at) for at in (0.5, 1.5)), 40)["other label"] > 0, "it can tell a difference"


def test_files_are_measured_beside_memory() -> None:
    found = predict.measure(130, 1)
    assert found["files"] == 130
    assert 0 < found["rate_to_memory"] < 1.5
    with predict.files(3) as paths:
        rows = predict.from_files(predict.load_bundled_defense(predict.DEFENSE), paths)
    assert all(isinstance(row["label"], int) and row["error"] is None for row in rows)


def _decided(sigma: float) -> Decision:
    return Defense(models.load("cifar10-standard"), Blur(sigma), rule="purified").decide(
        data.sample("test").images[:20]
    )


@pytest.mark.skipif(shutil.which("hey") is None, reason="needs the program hey, which is not there")
def test_the_service_is_measured_beside_the_same_work_in_one_process() -> None:
    row = serve.measure("demo-pca@5", 1, 0.3, 192, first=64)
    assert row["pictures_per_second"] > 0
    over = row["overload"]
    assert isinstance(over, dict)
    assert over["sent"] == over["answered_200"] + over["answered_503"] + over["lost"]
    assert row["memory_bytes"].keys() == {"64", "192"}  # type: ignore[attr-defined]
    facts = {"processor": "a processor", "threads": 2, "torch": "2", "commit": "c"}
    lines = serve.table({"rows": [row], "measured with": facts}).splitlines()
    assert [line.count("|") for line in lines[:3]] == [len(serve.TITLES) + 1] * 3
    assert lines[2].startswith("| `demo-pca@5` | ")
    page = serve.PAGE.read_text()
    assert all(page.count(mark) == 1 for mark in serve.MARKS)


@pytest.mark.parametrize("purifier", large_pictures.PURIFIERS)
def test_fits_on_large_pictures_are_measured(purifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pictures, "SIZE", 16)
    found = large_pictures.fit(purifier, 140)
    assert found["peak_mb"] >= found["before_mb"] > 0


def test_workers_are_measured_beside_one_process() -> None:
    found = workers.measure("cifar10-standard", 4, 1, 2, block=2)
    assert found["times as fast"] == round(found["rounds"][0]["ratio"], 3) > 0


def test_large_jobs_are_computed_from_committed_results() -> None:
    page = sizing.PAGE.read_text()
    shown = page.split(sizing.MARKS[0])[1].split(sizing.MARKS[1])[0].strip()
    assert shown == sizing.table(), "python bench/sizing.py --write"
    assert f"do as much as {sizing.GPU_CORES:g} of these cores" in page
    assert f"counts {sizing.BUSY:g} times" in page


def test_a_job_takes_as_long_as_its_last_piece() -> None:
    assert sizing.makespan([1.0] * 7, 2) == 4.0
    assert sizing.makespan([1.0, 5.0, 1.0, 1.0], 2) == 5.0
    assert sizing.makespan([3.0], 512) == 3.0
    assert sizing.core_seconds(8.0, 1) == 8.0
    assert sizing.core_seconds(8.0, 2) == 10.0
    assert [sizing.words(seconds) for seconds in (9.44, 89, 95, 5000, 4 * 86_400)] == [
        "9.4 s",
        "89 s",
        "1.6 min",
        "83 min",
        "4 d",
    ]
