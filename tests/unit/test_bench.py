"""The benchmarks run, and report what the documents quote."""

from __future__ import annotations

import pytest
from bench import export, latency, refusal

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
    # One pass for the answer, one for each step and the last point, one for the score.
    assert (found["answered"]["forwards"], found["answered"]["backwards"]) == (13, 10)
    assert found["refused"]["backwards"] < found["answered"]["backwards"]


def test_export_compares_times_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "BATCHES", (1, 2))
    found = export.measure("blur", Blur(0.5), repeats=1, threads=1, count=20, n=40)
    assert [row["batch"] for row in found["speed"]] == [1, 2]
    assert all(row["ratio"] > 0 for row in found["speed"])
    close = found["closeness"]["clean scores of onnxruntime"]
    assert close["other label"] == close["other state"] == close["post_logits, above 0.001"] == 0
    assert export.apart(*(_decided(at) for at in (0.5, 1.5)), 40)["other label"] > 0, "it can tell a difference"


def _decided(sigma: float) -> Decision:
    return Defense(models.load("cifar10-standard"), Blur(sigma), rule="purified").decide(
        data.sample("test").images[:20]
    )
