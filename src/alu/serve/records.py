"""Records: everything that is noted about decisions (audit log, monitor, metrics), and where it is kept."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from alu.errors import StorageError
from alu.serve.audit import AuditLog
from alu.serve.engine import Answers, Engine
from alu.serve.metrics import QUANTILES, Metrics
from alu.serve.monitoring import GAUGES, Monitoring

KEPT_EVERY = 10.0
"""Seconds between two writes of the monitor's state."""
SYNCED_EVERY = 1.0
"""Seconds between two times that the audit log is forced to disk."""


class Records:
    """Takes note of every batch of decisions.

    Parameters
    ----------
    alarm
        The monitor's alarm level.
    state
        The file in which the monitor's state is kept; nowhere if None.
    audit
        The audit log; none if None.
    """

    def __init__(self, alarm: float = 100.0, state: Path | None = None, audit: AuditLog | None = None) -> None:
        self.alarm, self.state, self.audit = alarm, state, audit
        self.metrics = Metrics()
        self.engine: Engine | None = None
        self.monitoring: Monitoring | None = None
        self.audit_failure = ""
        """Why decisions could not be logged in the last seconds; empty if they could."""
        self._ended = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="alu-keep", daemon=True)

    def begin(self, engine: Engine) -> None:
        """The engine is loaded: prepare the monitor and go on from its state."""
        monitoring = Monitoring(engine, self.alarm)
        if self.state is not None and self.state.exists():
            monitoring.restore(self.state)
        clean = engine.clean_scores
        edges = [] if clean is None else sorted({float(np.quantile(clean, at)) for at in QUANTILES})
        facts = {"name": engine.name, "model": engine.model, "calibration": engine.calibration}
        self.metrics.describe(facts, edges)
        for name, about in GAUGES.items():
            self.metrics.gauge(f"alu_monitor_{name}", about, partial(monitoring.gauge, name))
        self.engine, self.monitoring = engine, monitoring
        self._keeper.start()

    def end(self) -> None:
        """Write everything to disk."""
        self._ended.set()
        if self._keeper.is_alive():
            self._keeper.join()
        if self.audit is not None:
            self.audit.close()

    def log(self, rows: list[dict[str, Any]]) -> None:
        """Write decisions to the audit log, if there is one; a StorageError if they cannot be written."""
        if self.audit is None or self.engine is None:
            return
        first = {"time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        last = {"model": self.engine.model, "calibration": self.engine.calibration}
        try:
            self.audit.write(first | row | last for row in rows)
        except StorageError as error:
            self.audit_failure = str(error)
            raise
        self.audit_failure = ""

    def count(self, answers: Answers, waited: list[float], seconds: float) -> None:
        """Take a batch into account: how long each picture waited, and how long all of them took."""
        assert self.monitoring is not None
        self.monitoring.add(answers)
        metrics = self.metrics
        metrics.batch.observe(len(waited))
        metrics.compute_time.observe(seconds)
        for wait in waited:
            metrics.queue_time.observe(wait)
        for state in answers.state:
            metrics.pictures.labels(state).inc()
        metrics.flagged.inc(int(answers.flagged.sum()))
        metrics.abstained.inc(int((~answers.accepted).sum()))
        if metrics.score is not None:
            for score in answers.score.tolist():
                metrics.score.observe(score)

    def save(self) -> None:
        """Write the monitor's state."""
        if self.state is not None and self.monitoring is not None:
            self.monitoring.save(self.state)

    def _keep(self) -> None:
        """Write state and log to disk now and then, and once more at the end."""
        written = time.monotonic()
        ended = False
        while not ended:
            ended = self._ended.wait(SYNCED_EVERY)
            if self.audit is not None:
                _attempt(self.audit.sync)
            if ended or time.monotonic() - written >= KEPT_EVERY:
                written = time.monotonic()
                self.audit_failure = ""  # the next request tries again
                _attempt(self.save)


def _attempt(action: Callable[[], None]) -> None:
    """A full disk must not end the thread: there may be room later."""
    try:
        action()
    except StorageError as error:
        sys.stderr.write(f"alu: warning: {error}\n")
