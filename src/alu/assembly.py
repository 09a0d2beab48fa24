"""Which parts go together: what could not work is refused, in a sentence."""

from __future__ import annotations

from alu.decision import Rule
from alu.detectors.base import Detector
from alu.detectors.residual import Residual
from alu.errors import UsageError
from alu.purifiers.base import Purifier
from alu.purifiers.filters import Identity


def check_suspicious(p_value: float) -> float:
    """The p-value up to which an image is suspicious, if it can be one; 1 would leave no image that is not."""
    if not 0.0 <= p_value < 1.0:
        raise UsageError(
            "suspicious is the p-value up to which an image is suspicious, at least 0 and below 1, such as 0.02; it is "
            f"{p_value}. Rule 'alu' answers every image as if it were."
        )
    return p_value


def refuse_misfits(rule: Rule, purifier: Purifier, detector: Detector | None, reference: str) -> None:
    """Refuse a rule without its detector, a reference that the purifier or the rule has no use for, and a search around
    anything but the picture itself."""
    if detector is None and rule.needs_detector:
        raise UsageError(f"Rule {rule.name!r} needs a detector. Pass detector=alu.detectors.LogitShift().")
    if reference == "reconstruction" and not purifier.has_reconstruction:
        raise UsageError(
            f"reference='reconstruction' compares with the purifier's output before any step, and "
            f"{type(purifier).__name__} has none. Use reference='input', or LatentVAE."
        )
    if reference == "reconstruction" and rule.uses_state:
        raise UsageError(
            f"Rule {rule.name!r} answers from the picture itself where nothing is found, and with "
            "reference='reconstruction' the logits before purification are not the picture's. Use reference='input'."
        )
    if detector is not None and detector.around and type(purifier) is not Identity:
        raise UsageError(
            f"{type(detector).__name__} looks around the picture itself and proves nothing about a purified "
            "one. Leave the purifier out."
        )


def refuse_without_limits(rule: Rule, purifier: Purifier, residual: Residual, shape: tuple[int, ...]) -> None:
    """Refuse, once a defence is calibrated and so has a shape, a rule whose second test has no limits."""
    if shape and rule.uses_state and not residual.calibrated:
        raise UsageError(
            f"Rule {rule.name!r} needs limits for what purification takes away, and this defence has none: "
            f"{type(purifier).__name__} makes features, not images, or the defence was calibrated by an earlier "
            "version. Calibrate it again, or use rule='alu'."
        )
