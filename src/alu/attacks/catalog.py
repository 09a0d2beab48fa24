"""Attacks by the names that commands and results use."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from alu.attacks import adaptive
from alu.attacks.autoattack import APGDCE, APGDDLR, APGDT, FAB, AutoAttack, Square
from alu.attacks.base import Attack
from alu.attacks.carlini_wagner import CarliniWagnerL2
from alu.attacks.decision_based import HopSkipJump
from alu.attacks.flatten import Flatten
from alu.attacks.gradient import FGSM, MIM, PGD, CWLinf
from alu.errors import UsageError, check_choice, nearest
from alu.parts import settings_of

ATTACKS: dict[str, type[Attack]] = {
    "fgsm": FGSM,
    "pgd": PGD,
    "mim": MIM,
    "cw-linf": CWLinf,
    "cw-l2": CarliniWagnerL2,
    "apgd-ce": APGDCE,
    "apgd-dlr": APGDDLR,
    "apgd-t": APGDT,
    "fab": FAB,
    "square": Square,
    "autoattack": AutoAttack,
    "hopskipjump": HopSkipJump,
    "flatten": Flatten,
    "confident": adaptive.Confident,
    "min-max": adaptive.MinMax,
    "straight-through": adaptive.StraightThrough,
    "unrolled-search": adaptive.UnrolledSearch,
    "stall": adaptive.Stall,
    "denial": adaptive.Denial,
    "direct": adaptive.Direct,
    "boost": adaptive.Boost,
    "decoy": adaptive.Decoy,
    "stealth": adaptive.Stealth,
    "pattern": adaptive.Pattern,
    "match": adaptive.Match,
    "soft": adaptive.Soft,
    "transfer": adaptive.Transfer,
    "query": adaptive.Query,
    "trajectory": adaptive.Trajectory,
}


POSITIVE = ("steps", "step_size", "targets", "queries", "restarts", "draws", "searches", "batch_size", "c", "lr")
"""Settings that must be above 0: otherwise an attack would do nothing, or move away from its goal."""


def make_attack(name: str, trust: bool = False, **settings: Any) -> Attack:
    """The attack of this name, or of the user's own class "module:Class"; an unknown setting is refused, and the error
    offers the nearest ones."""
    if ":" in name:
        return Attack.rebuild({"name": name, **settings}, trust)
    check_choice("attack", name, ATTACKS)
    kind = ATTACKS[name]
    known = settings_of(kind)
    for key, value in settings.items():
        if key not in known:
            raise UsageError(f"The attack {name} has no setting {key!r}. {nearest(key, sorted(known))}")
        if not _fits(value, known[key]):
            plain = known[key].__name__ if get_origin(known[key]) is None else str(known[key])
            wanted = plain.replace("collections.abc.", "").replace("typing.", "")
            raise UsageError(f"The attack {name} takes a setting {key} of type {wanted}; it was given {value!r}.")
        if key in POSITIVE and value is not None and not value > 0:
            raise UsageError(f"The attack {name} takes a setting {key} above 0; it was given {value!r}.")
    return kind(**settings)


def _fits(value: Any, wanted: Any) -> bool:
    """Whether a plain value fits a type; types of other values are left to the constructor to check."""
    if get_origin(wanted) in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(wanted))
    if get_origin(wanted) is Literal:
        return isinstance(value, str)  # the constructor checks the choice and offers the nearest
    if get_origin(wanted) is Sequence:
        several = isinstance(value, list | tuple) and len(value) > 0
        return several and all(_fits(one, *get_args(wanted)) for one in value)
    if wanted in (int, float):
        return isinstance(value, int if wanted is int else int | float) and not isinstance(value, bool)
    return isinstance(value, wanted) if isinstance(wanted, type) else True
