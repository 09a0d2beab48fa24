"""The benchmarks run, and report what the documents quote."""

from __future__ import annotations

import shutil

import pytest
from bench import latency, refusal, serve

from alu import data


def test_latency_has_a_ratio_for_each_number_of_steps() -> None:
    found = latency.measure(1, 1)["ratio_to_classifier"]
    assert isinstance(found, dict)
    assert found["classifier"] == 1.0
    assert [name for name in found if name.startswith("VAE")] == [f"VAE + ALU, N={steps}" for steps in latency.STEPS]


def test_refusal_counts_passes_of_answered_and_refused_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusal, "BATCH", 6)
    found = refusal.check(data.sample("test").draw(20).images, 1)
    # One pass for the answer, one for each step and the last point, one for the score.
    assert (found["answered"]["forwards"], found["answered"]["backwards"]) == (13, 10)
    assert found["refused"]["backwards"] < found["answered"]["backwards"]


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
