"""Attacks by an opponent who knows the whole defence: purifier, steps, threshold and rule."""

from alu.attacks.adaptive.base import AdaptiveAttack
from alu.attacks.adaptive.boost import Boost
from alu.attacks.adaptive.confident import Confident, TargetedAttack
from alu.attacks.adaptive.decoy import Decoy
from alu.attacks.adaptive.denial import Denial
from alu.attacks.adaptive.direct import Direct
from alu.attacks.adaptive.match import Match
from alu.attacks.adaptive.min_max import MinMax
from alu.attacks.adaptive.pattern import Pattern, case_three
from alu.attacks.adaptive.query import Query
from alu.attacks.adaptive.soft import Soft, SoftOutput
from alu.attacks.adaptive.stall import Stall
from alu.attacks.adaptive.stealth import Stealth
from alu.attacks.adaptive.straight_through import StraightThrough
from alu.attacks.adaptive.trajectory import Trajectory
from alu.attacks.adaptive.transfer import Transfer
from alu.attacks.adaptive.unrolled_search import UnrolledSearch
from alu.attacks.adaptive.view import Level, levels, twin

__all__ = [
    "AdaptiveAttack", "Boost", "Confident", "Decoy", "Denial", "Direct", "Level", "Match", "MinMax", "Pattern",
    "Query", "Soft", "SoftOutput", "Stall", "Stealth", "StraightThrough", "TargetedAttack", "Trajectory", "Transfer",
    "UnrolledSearch", "case_three", "levels", "twin",
]  # fmt: skip
