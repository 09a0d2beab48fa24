"""Detectors: evidence in, suspicion score and p-value out."""

from alu.detectors.base import Detector
from alu.detectors.combined import Combined
from alu.detectors.scores import Disagreement, LogitPeak, LogitShift, ReconstructionError

__all__ = ["Combined", "Detector", "Disagreement", "LogitPeak", "LogitShift", "ReconstructionError"]
