"""Attacks: adversarial images within a threat model."""

from alu.attacks import adaptive
from alu.attacks.autoattack import APGDCE, APGDDLR, APGDT, FAB, AutoAttack, Square
from alu.attacks.base import Attack
from alu.attacks.carlini_wagner import CarliniWagnerL2
from alu.attacks.copies import with_grad_mode
from alu.attacks.decision_based import HopSkipJump
from alu.attacks.flatten import Flatten
from alu.attacks.goals import Averaged, Goal, Misclassify, fooled
from alu.attacks.gradient import BPDAEOT, FGSM, MIM, PGD, CWLinf, GradientAttack
from alu.attacks.watching import watched

__all__ = [
    "APGDCE", "APGDDLR", "APGDT", "BPDAEOT", "FAB", "FGSM", "MIM", "PGD", "Attack", "AutoAttack", "Averaged", "CWLinf",
    "CarliniWagnerL2", "Flatten", "Goal", "GradientAttack", "HopSkipJump", "Misclassify", "Square", "adaptive",
    "fooled", "watched", "with_grad_mode",
]  # fmt: skip
