"""ExportedEngine: a defence that `alu export` wrote, as an engine. It needs no torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from alu.decoding import Pixels
from alu.errors import UsageError
from alu.exported import Exported
from alu.serve.engine import Answers, Engine
from alu.state import State
from alu.storage import checksum


class ExportedEngine(Engine):
    """Answers with `alu.exported.Exported.decide`.

    Parameters
    ----------
    folder
        What `alu export` wrote.
    """

    def __init__(self, folder: Path) -> None:
        exported = Exported(folder)
        self.exported = exported
        self.name, self.classes = str(folder), exported.classes
        channels, height, width = exported.shape
        self.shape = (channels, height, width)
        facts, learned = exported.facts, exported.calibration
        detector = facts["detector"]
        kept = {name: facts[name] for name in ("rule", "reference", "eps", "suspicious")}
        calibrated = learned is not None and (learned.fixed is not None or len(learned.scores) > 0)
        self.facts = {
            "classifier": facts["classifier"].get("name") or facts["classifier"]["kind"],
            "purifier": facts["purifier"],
            "detector": detector,
            **kept,
            "false_alarm": None if detector is None else detector["false_alarm"],
            "threshold": float(learned.thresholds(1)[0]) if learned is not None and calibrated else None,
        }
        self.model = checksum({"graphs": facts["graphs"], **kept, "classes": list(self.classes)})
        scores = None if learned is None else learned.scores
        self.calibration = checksum({"scores": [] if scores is None else scores.tolist(), "engine": exported.engine})
        self.clean_scores = scores if scores is not None and len(scores) else None
        self.without_scores = ""
        if self.clean_scores is None:
            self.without_scores = "This export has no scores of clean pictures. Export it again with --data."
        self.can_purify = True
        self.can_purify = self.decide(np.zeros((1, *self.shape), np.uint8), True).purified is not None

    def decide(self, pixels: Pixels, purified: bool = False) -> Answers:
        """`Exported.decide`, on one batch."""
        # As alu.data.as_images does: the same pixels give the same numbers.
        decision = self.exported.decide(pixels.astype(np.float32) / np.float32(255), len(pixels))
        shown = decision.purified if purified and decision.purified.shape == pixels.shape else None
        return Answers(
            decision.label, decision.accepted, decision.flagged, [State(int(one)).word for one in decision.state],
            decision.score.astype(np.float64), decision.p_value, decision.pre_logits, decision.post_logits, shown,
        )  # fmt: skip


def refuse_settings(folder: Path, classifier: str | None, device: str) -> None:
    """An export holds its classifier, and runs on the CPU."""
    if classifier is not None or device != "cpu":
        raise UsageError(
            f"{folder} is an export: its classifier is in it, and it runs on the CPU. Leave out --classifier and "
            "--device."
        )
