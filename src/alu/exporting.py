"""alu.export: a defence as ONNX graphs that need no torch. The graphs are traced from the code that torch runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alu.check import check_images, evaluating
from alu.defense import Defense
from alu.detectors import Detector
from alu.engine import engine
from alu.errors import InputError, UsageError
from alu.exported import FACTS, FORMAT, Exported, is_export, write_calibration
from alu.graphs import Writer, write_graphs
from alu.parts import Part, part_name
from alu.pixels import refuse_none, refuse_other_size
from alu.progress import Watch, silent
from alu.provenance import provenance
from alu.rng import generator
from alu.saving import classifier_record
from alu.storage import replacing_folder, write_checked
from alu.tracing import refuse_missing

AGREEMENT = 1e-3
"""How far the logits of half of the compared images may be apart, beside 1 and their size."""
COMPARED = 50
"""Images on which the export is compared with the defence."""


def export(
    defense: Defense, folder: Path | str, images: Tensor | None = None, *, batch_size: int = 100, watch: Watch = silent
) -> Exported:
    """Write a defence as a folder of ONNX graphs that answers without torch; returns it, loaded from there.

    The folder appears whole or not at all, and takes the place of an earlier export only.

    Parameters
    ----------
    defense
        A calibrated defence on the CPU, in float32. Parts that draw random numbers cannot be exported.
    folder
        Where to write.
    images
        Clean images that nothing was trained on. The export is calibrated on them once more, so that p-values are those
        of the engine that answers. None keeps the scores that torch computed.
    batch_size
        How many of them at a time.
    watch
        Called with (current work, amount done, amount in all).

    Examples
    --------
    >>> alu.export(defense, folder / "my-export").rule
    'alu'
    """
    refuse_missing()
    _refuse(defense)
    shape = _shape(defense, images)
    with replacing_folder(Path(folder), is_export) as place, evaluating(defense, defense.classifier):
        watch("Tracing", 0, 1)
        with torch.no_grad():
            defense.evidence(torch.zeros((1, *shape)))  # what parts keep from their first call is then a constant
        writer = Writer(place, shape)
        write_graphs(defense, writer)
        watch("Tracing", 1, 1)
        facts = _facts(defense, Path(folder), shape, writer)
        write_checked(place / FACTS, facts)
        _write_calibration(defense, place, facts["graphs"])
        made = Exported(place)
        if images is not None and _learns(defense):
            made.calibrate(
                images.detach().cpu().numpy(), batch_size, lambda done, total: watch("Calibrating", done, total)
            )
            write_calibration(place, facts["graphs"], made.engine, made.calibration, made.residual)
        _compare(defense, made, shape, images)
    return Exported(folder)


def _refuse(defense: Defense) -> None:
    """Refuse what cannot be exported, before any work."""
    if not isinstance(defense, Defense):
        raise UsageError(f"alu.export needs a Defense; it was given {type(defense).__name__}.")
    for part in (defense.purifier, defense.detector, defense.classifier):
        traits = getattr(part, "traits", None)
        if getattr(part, "stochastic", False) or (traits is not None and traits.stochastic):
            raise UsageError(
                f"{type(part).__name__} draws random numbers as torch does, which a graph without torch cannot repeat, "
                "so this defence cannot be exported. Serve it with torch, or choose a part that is not random."
            )
    own = [name for name in ("test", "p_values", "thresholds") if _overridden(defense.detector, name)]
    if own:
        raise UsageError(
            f"{type(defense.detector).__name__} has its own {own[0]}, which an export does not know: it compares "
            "scores as alu.detectors.Detector does. Write the detector with `score` and `groups` alone."
        )
    for tensor in (*defense.parameters(), *getattr(defense.classifier, "parameters", list)()):
        if tensor.device.type != "cpu" or (tensor.is_floating_point() and tensor.dtype != torch.float32):
            raise UsageError(
                f"A defence is exported from the CPU and in float32; this one is on {tensor.device} and in "
                f"{tensor.dtype}. Call defense.float().cpu() first."
            )


def _overridden(detector: Detector | None, name: str) -> bool:
    return detector is not None and getattr(type(detector), name) is not getattr(Detector, name)


def _shape(defense: Defense, images: Tensor | None) -> tuple[int, ...]:
    """The shape of the images that the export will read."""
    if images is not None:
        check_images(images, "alu.export")
        refuse_none(images.shape)
        refuse_other_size(defense.shape, images.shape)
        return tuple(images.shape[1:])
    if defense.detector is not None and defense.rule_.needs_detector:
        defense.detector.require_calibration()
    if not defense.shape:
        raise UsageError(
            "This defence was never calibrated, so it does not know the size of its images. Pass some to alu.export: "
            "images=..., clean and not used for training."
        )
    return defense.shape


def _learns(defense: Defense) -> bool:
    """Whether there are clean scores to replace. One whose threshold is fixed may have none, and needs none."""
    detector = defense.detector
    return detector is not None and (detector.fixed is None or detector.scores_.numel() > 0)


def _facts(defense: Defense, folder: Path, shape: Sequence[int], writer: Writer) -> dict[str, Any]:
    """What the export is, as plain values."""
    import onnx

    detector = None
    if defense.detector is not None:
        rates = {"false_alarm": defense.detector.false_alarm, "fixed": defense.detector.fixed}
        detector = {**_described(defense.detector), **rates}
    return {
        "format": FORMAT,
        "shape": list(shape),
        "classes": list(defense.classes),
        "rule": defense.rule,
        "reference": defense.reference,
        "eps": defense.residual.eps,
        "suspicious": defense.suspicious,
        "classifier": classifier_record(defense.classifier, folder),
        "purifier": _described(defense.purifier),
        "detector": detector,
        "program": writer.program,
        "graphs": writer.checksums,
        "provenance": {**provenance(0), "onnx": onnx.__version__, "engine": engine()},
    }


def _described(part: Part) -> dict[str, Any]:
    """The settings of a part; its name alone where they are more than plain values."""
    try:
        return part.description()
    except UsageError:  # a network that alu cannot rebuild, which an export need not do
        return {"name": part_name(type(part))}


def _write_calibration(defense: Defense, folder: Path, graphs: dict[str, str]) -> None:
    """Write what torch learned from clean images."""
    detector, residual = defense.detector, defense.residual
    learned = detector.calibration_ if detector is not None and detector.calibrated else None
    limits = residual.clean_.numpy() if residual.calibrated else None
    write_calibration(folder, graphs, f"torch {torch.__version__}", learned, limits)


def _compare(defense: Defense, made: Exported, shape: Sequence[int], images: Tensor | None) -> None:
    """Refuse an export whose logits are not those of the defence."""
    if images is None:
        images = torch.rand((COMPARED // 5, *shape), generator=generator(0, "compared with an export"))
    some = images[:COMPARED]
    expected, found = defense.evidence(some.detach()), made.decide(some.detach().numpy())
    for name in ("pre_logits", "post_logits"):
        logits = getattr(expected, name).detach()
        apart = (logits - torch.from_numpy(getattr(found, name))).abs().amax(1) / (1 + logits.abs().amax(1))
        if not float(apart.median()) <= AGREEMENT:
            raise InputError(
                f"This defence cannot be exported: the graphs answer otherwise than torch, with {name} that are "
                f"{float(apart.median()):.2g} apart. Does a part look at values, or at other images of the batch?"
            )
