"""The monitor in the service: fed by the engine's thread, read by gauges and /v1/monitor, kept in a file."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from alu.errors import StorageError
from alu.monitor import Monitor
from alu.serve.engine import Answers, Engine
from alu.storage import read_checked, write_checked

RECENT = 1_000
"""Pictures whose evidence, p-values and flags are kept."""
BINS = 20
GAUGES = {
    "on": "1 if the monitor watches.",
    "evidence_log10": "log10 of the monitor's evidence that pictures have changed.",
    "highest_log10": "The highest of these so far.",
    "alarm": "1 if the evidence has reached the alarm level.",
    "pictures": "Pictures that the monitor has seen.",
}
FORMAT = 1
READABLE = "the state of a monitor as alu serve keeps it"
ADVICE = "Restore a copy, or delete it to begin again."


class Monitoring:
    """Counts, rates and evidence about the stream of pictures. Methods may be called from any thread.

    Parameters
    ----------
    engine
        Its clean scores are what new ones are compared with; without them the monitor is off and only counts are kept.
    alarm
        The evidence at which the alarm is raised.
    """

    def __init__(self, engine: Engine, alarm: float) -> None:
        scores = engine.clean_scores
        self.monitor = None if scores is None else Monitor(scores, alarm)
        self.why_off, self.calibration = engine.without_scores, engine.calibration
        self.pictures = self.flagged = self.abstained = 0
        self._recent: deque[tuple[float | None, float | None, bool, bool]] = deque(maxlen=RECENT)
        self._lock = threading.Lock()

    def add(self, answers: Answers) -> None:
        """Take a batch into account."""
        abstained = ~answers.accepted
        with self._lock:
            curve: list[Any] = [None] * len(abstained)
            p_values: list[Any] = list(curve)
            if self.monitor is not None:
                seen = self.monitor.update(answers.score)
                curve, p_values = seen.log10_evidence.tolist(), seen.p_values.tolist()
            self._recent.extend(zip(curve, p_values, answers.flagged.tolist(), abstained.tolist(), strict=True))
            self.pictures += len(abstained)
            self.flagged += int(answers.flagged.sum())
            self.abstained += int(abstained.sum())

    def reset(self) -> None:
        """Begin again: evidence 1, no alarm, nothing seen; counts go on."""
        with self._lock:
            if self.monitor is not None:
                self.monitor.reset()
            self._recent.clear()

    def report(self) -> dict[str, Any]:
        """Plain values for /v1/monitor."""
        with self._lock:
            recent = list(self._recent)
            found: dict[str, Any] = {
                "on": self.monitor is not None,
                "why_off": self.why_off or None,
                "pictures": self.pictures,
                "flagged": self.flagged,
                "abstained": self.abstained,
            }
            if self.monitor is not None:
                martingale = self.monitor.martingale
                found |= {
                    "watched": martingale.count,
                    "clean_pictures": self.monitor.calibration_count,
                    "alarm_level": martingale.alarm,
                    "alarm": martingale.alarmed,
                    "alarm_at": martingale.alarm_at,
                    "log10_evidence": round(martingale.log10_evidence, 4),
                    "log10_highest": round(martingale.log10_highest, 4),
                }
        return found | {"recent": _summary(recent, found.get("watched", found["pictures"]))}

    def gauge(self, name: str) -> float:
        """One of `GAUGES`; 0 where the monitor is off."""
        if self.monitor is None:
            return 0.0
        martingale = self.monitor.martingale
        return {
            "on": 1.0,
            "evidence_log10": martingale.log10_evidence,
            "highest_log10": martingale.log10_highest,
            "alarm": float(martingale.alarmed),
            "pictures": float(martingale.count),
        }[name]

    def save(self, path: Path) -> None:
        """Write everything; the file appears whole or stays as it was."""
        with self._lock:
            plain = {
                "format": FORMAT,
                "calibration": self.calibration,
                "pictures": self.pictures,
                "flagged": self.flagged,
                "abstained": self.abstained,
                "recent": [list(row) for row in self._recent],
                "monitor": None if self.monitor is None else self.monitor.to_dict(),
            }
        write_checked(path, plain, indent=None)

    def restore(self, path: Path) -> None:
        """Go on from a file; one of another calibration or alarm level is refused."""
        plain = read_checked(path, READABLE, ADVICE)
        if plain.get("format") != FORMAT:
            raise StorageError(f"{path} is not {READABLE} by this version. {ADVICE}")
        if plain["calibration"] != self.calibration:
            raise StorageError(
                f"{path} belongs to another calibration: its evidence says nothing about this defence. Choose another "
                "--state, or delete it to begin again."
            )
        if self.monitor is not None:
            restored = Monitor.from_dict(plain["monitor"])
            if restored.martingale.alarm != self.monitor.martingale.alarm:
                raise StorageError(
                    f"{path} was kept with --alarm {restored.martingale.alarm:g}. Use that, or delete it to begin "
                    "again."
                )
            self.monitor = restored
        self.pictures, self.flagged, self.abstained = (plain[name] for name in ("pictures", "flagged", "abstained"))
        self._recent.extend(tuple(row) for row in plain["recent"])


def _summary(recent: list[tuple[float | None, float | None, bool, bool]], watched: int) -> dict[str, Any]:
    """The last pictures: their curve, rates and a histogram of fair p-values."""
    counts, _ = np.histogram([row[1] for row in recent if row[1] is not None], BINS, (0.0, 1.0))
    return {
        "pictures": len(recent),
        "first": watched - len(recent) + 1,
        "log10_evidence": [None if row[0] is None else round(row[0], 4) for row in recent],
        "flagged_rate": sum(row[2] for row in recent) / len(recent) if recent else None,
        "abstained_rate": sum(row[3] for row in recent) / len(recent) if recent else None,
        "p_value_histogram": counts.tolist(),
    }
