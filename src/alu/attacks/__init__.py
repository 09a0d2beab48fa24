"""Attacks: images an opponent would send."""

from alu.attacks.base import Attack
from alu.attacks.carlini_wagner import CarliniWagnerL2
from alu.attacks.goals import Goal, Misclassify, fooled
from alu.attacks.gradient import FGSM, MIM, PGD, CWLinf, GradientAttack

__all__ = [
    "FGSM",
    "MIM",
    "PGD",
    "Attack",
    "CWLinf",
    "CarliniWagnerL2",
    "Goal",
    "GradientAttack",
    "Misclassify",
    "fooled",
]
