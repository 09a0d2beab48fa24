"""A defence, or any classifier, as a foolbox model."""

from __future__ import annotations

from typing import Any

from torch import nn

from alu.attacks.borrowed import borrow


def to_foolbox(model: nn.Module) -> Any:
    """A `foolbox.PyTorchModel` of the model, in eval mode, with bounds (0, 1), on the device of its weights.

    Foolbox gets logits, in which a rejection does not show (`alu.attacks.HopSkipJump` knows of rejections), and the
    gradient of `grad_mode`.

    Parameters
    ----------
    model
        A defence or any classifier.

    Examples
    --------
    >>> logits = alu.integrations.to_foolbox(defense)(images)
    """
    library = borrow("foolbox", "to_foolbox", "attacks")
    # Without a device foolbox moves the model to the first GPU it finds.
    device = next((weight.device for weight in model.parameters()), None) or "cpu"
    return library.PyTorchModel(model.eval(), bounds=(0, 1), device=device)
