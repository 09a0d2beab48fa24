"""Every attack by the name that a command and a result use."""

from __future__ import annotations

import inspect
from typing import Any

from alu.attacks import adaptive
from alu.attacks.adaptive.view import Level
from alu.attacks.autoattack import APGDCE, APGDDLR, APGDT, FAB, AutoAttack, Square
from alu.attacks.base import Attack
from alu.attacks.carlini_wagner import CarliniWagnerL2
from alu.attacks.decision_based import HopSkipJump
from alu.attacks.gradient import FGSM, MIM, PGD, CWLinf
from alu.errors import UsageError, nearest

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
"""Settings with which an attack at 0 or below would do nothing, or run away from what it looks for."""


def make_attack(name: str, **settings: Any) -> Attack:
    """The attack of this name; a setting it does not have is refused with those it has."""
    if name not in ATTACKS:
        raise UsageError(f"There is no attack {name!r}. {nearest(name, list(ATTACKS))}")
    kind = ATTACKS[name]
    known = settings_of(kind)
    for key, value in settings.items():
        if key not in known:
            raise UsageError(f"The attack {name} has no setting {key!r}. {nearest(key, sorted(known))}")
        if not _fits(value, known[key]):
            raise UsageError(f"The attack {name} takes a setting {key} of type {known[key]}; it was given {value!r}.")
        if key in POSITIVE and value is not None and not value > 0:
            raise UsageError(f"The attack {name} takes a setting {key} above 0; it was given {value!r}.")
    return kind(**settings)


def _fits(value: Any, wanted: str) -> bool:
    """Whether a plain value is of the type that a constructor's annotation names; other types are left to it."""
    if wanted.startswith("Sequence[float]"):
        numbers = isinstance(value, (list, tuple)) and all(isinstance(one, (int, float)) for one in value)
        return numbers and len(value) > 0
    if wanted.startswith("Sequence[Level]"):
        return value is None or (isinstance(value, (list, tuple)) and all(isinstance(one, Level) for one in value))
    for word, types in (("int", (int,)), ("float", (int, float)), ("bool", (bool,)), ("str", (str,))):
        if wanted.split(" ", maxsplit=1)[0] == word:
            right = isinstance(value, types) and (word == "bool" or not isinstance(value, bool))
            return right or (value is None and "None" in wanted)
    return True


def settings_of(kind: type[Attack]) -> dict[str, str]:
    """Everything a constructor takes with its annotation, its parents' included where it passes them on."""
    known: dict[str, str] = {}
    for part in kind.__mro__:
        if not issubclass(part, Attack) or "__init__" not in vars(part):
            continue
        parameters = inspect.signature(part.__init__).parameters.values()
        own = {item.name: str(item.annotation) for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY}
        known = own | known  # a subclass knows better
        if not any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters):
            break
    return known
