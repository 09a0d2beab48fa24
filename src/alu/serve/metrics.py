"""Metrics for Prometheus; docs/deploy.md says what each means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
P_VALUES = tuple(step / 20 for step in range(1, 21))
QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """All counters, histograms and gauges of one service, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "alu_requests", "Requests, by address and status.", ["path", "status"], registry=self.registry
        )
        self.refusals = Counter("alu_refusals", "Requests refused, by cause.", ["cause"], registry=self.registry)
        self.pictures = Counter("alu_pictures", "Pictures answered, by state.", ["state"], registry=self.registry)
        self.flagged = Counter("alu_flagged", "Pictures that the detector flagged.", registry=self.registry)
        self.abstained = Counter("alu_abstained", "Pictures that got no answer.", registry=self.registry)
        self.batch = Histogram("alu_batch_pictures", "Pictures in a batch.", buckets=SIZES, registry=self.registry)
        self.queue_time = Histogram(
            "alu_queue_seconds",
            "From decoded to the start of its batch, per picture.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.compute_time = Histogram(
            "alu_compute_seconds",
            "From the start of a batch to its decisions.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.answer_time = Histogram(
            "alu_answer_seconds",
            "From the first byte of a request to its answer.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.score: Histogram | None = None
        self.info = Info("alu_defense", "What is served.", registry=self.registry)

    def describe(self, facts: dict[str, str], score_edges: Sequence[float]) -> None:
        """Once the defence is loaded: what it is, and buckets of scores at quantiles of clean ones."""
        self.info.info(facts)
        if score_edges:
            self.score = Histogram(
                "alu_score", "Suspicion scores; the buckets end at quantiles of clean scores.", buckets=score_edges,
                registry=self.registry,
            )  # fmt: skip

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """A gauge that is read when somebody asks."""
        Gauge(name, about, registry=self.registry).set_function(read)

    def text(self) -> bytes:
        """What Prometheus reads."""
        return generate_latest(self.registry)
