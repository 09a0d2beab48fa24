"""The benchmarks run, and report what the documents quote."""

from __future__ import annotations

import pytest
from bench import large_pictures, latency, refusal

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


@pytest.mark.parametrize("purifier", large_pictures.PURIFIERS)
def test_fits_on_large_pictures_are_measured(purifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pictures, "SIZE", 16)
    found = large_pictures.fit(purifier, 140)
    assert found["peak_mb"] >= found["before_mb"] > 0
