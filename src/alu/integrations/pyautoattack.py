"""A defence, or any classifier, in pyautoattack itself."""

from __future__ import annotations

from typing import Any

from torch import nn

from alu.attacks.autoattack import fit_classes
from alu.attacks.borrowed import borrow
from alu.threat import ThreatModel


def to_autoattack(
    model: nn.Module, threat: ThreatModel, classes: int, *, version: str = "standard", seed: int = 0
) -> Any:
    """A `pyautoattack.AutoAttack` of the model, in eval mode, with targets and losses that fit its classes.

    It reseeds the global random state and fills the parameters' gradients; `alu.attacks.AutoAttack` does neither.

    Parameters
    ----------
    model, classes
        A defence or any classifier, and its number of classes.
    threat, version, seed
        The threat model; the library's "standard", "plus" or "rand"; and its seed.

    Examples
    --------
    >>> attack = alu.integrations.to_autoattack(defense, alu.ThreatModel(), 10)
    """
    library = borrow("pyautoattack", "to_autoattack", "attacks")
    device = next((weight.device for weight in model.parameters()), None) or "cpu"
    attack = library.AutoAttack(
        model.eval(), norm=threat.norm, eps=threat.eps, seed=seed, version=version, device=device
    )
    fit_classes(attack, classes)
    return attack
