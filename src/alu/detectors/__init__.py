"""Detectors: evidence in, suspicion score and p-value out."""

from alu.detectors.base import Detector
from alu.detectors.certificate import Certificate
from alu.detectors.combined import Combined
from alu.detectors.neighbourhood import Neighbourhood
from alu.detectors.scores import Confidence, Disagreement, LogitPeak, LogitShift, ReconstructionError

__all__ = [
    "Certificate", "Combined", "Confidence", "Detector", "Disagreement", "LogitPeak", "LogitShift", "Neighbourhood",
    "ReconstructionError",
]  # fmt: skip
