"""Attacks: images an opponent would send."""

from alu.attacks.base import Attack
from alu.attacks.gradient import PGD

__all__ = ["PGD", "Attack"]
