"""one-step: the appendix's learning rate, in the linear case where it holds, and where it stops holding."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from alu.experiments.base import Cell, Experiment, Found
from alu.experiments.material import Material
from alu.rng import generator

PIXELS, CODE = 48, 12


def cells(material: Material) -> list[Cell]:
    """One output, for which the algebra is right, and ten, for which no one rate can be; each also with the label that
    the classifier gives the image, as the appendix assumes."""
    return [
        Cell("1 outputs", partial(_cell, material, 1)),
        Cell("1 outputs, label of the image", partial(_cell, material, 1, True)),
        Cell("10 outputs", partial(_cell, material, 10), version=2),
        Cell("10 outputs, label of the image", partial(_cell, material, 10, True)),
    ]


def _cell(material: Material, outputs: int, fitting: bool = False) -> Found:
    """For each draw of a linear decoder and classifier, an image and a code: the rate, its sign, and the error of the
    output before and after one step, as a share of the wanted output; that is what the classifier says of the image
    where `fitting`, else any number."""
    stream = generator(material.seed, "one step", outputs)
    rates, before, after, right = [], [], [], []
    for _ in range(material.sizes["n"]):
        decoder, classifier, image, code, wanted = (
            torch.randn(shape, generator=stream, dtype=torch.float64)
            for shape in ((PIXELS, CODE), (outputs, PIXELS), (PIXELS,), (CODE,), (outputs,))
        )
        if fitting:
            wanted = classifier @ image
        rate = best_rate(decoder, classifier, image, code, wanted)
        stepped = code + rate * 2 * decoder.T @ (image - decoder @ code)
        rates.append(float(rate))
        before.append(_error(classifier @ decoder @ code, wanted))
        after.append(_error(classifier @ decoder @ stepped, wanted))
        right.append(some_rate(decoder, classifier, image, code, int(wanted.argmax())))
    found: Found = {"n": material.sizes["n"], "rate": rates, "error before": before, "error after": after}
    # One output has no other class that could be answered.
    return found if outputs == 1 else {**found, "some rate is right": "".join(str(int(one)) for one in right)}


def best_rate(decoder: Tensor, classifier: Tensor, image: Tensor, code: Tensor, wanted: Tensor) -> Tensor:
    """The rate of one step that brings C D z nearest to the wanted output: the appendix's formula where the output is
    one number, least squares where it is several. It needs the wanted output, that is the true label."""
    way = classifier @ decoder @ (2 * decoder.T @ (image - decoder @ code))
    missing = wanted - classifier @ decoder @ code
    return (way @ missing) / (way @ way)


def some_rate(decoder: Tensor, classifier: Tensor, image: Tensor, code: Tensor, label: int) -> bool:
    """Whether any positive rate makes `label` the largest output after one step: along the step each output is a line,
    and each other class allows the rates on one side of a point."""
    start, slope = (classifier @ decoder @ way for way in (code, 2 * decoder.T @ (image - decoder @ code)))
    low, high = 0.0, float("inf")
    for lead, gain in zip((start[label] - start).tolist(), (slope[label] - slope).tolist(), strict=True):
        if gain > 0:
            low = max(low, -lead / gain)
        elif gain < 0:
            high = min(high, -lead / gain)
        elif lead < 0:  # a class that stays ahead at every rate
            return False
    return low < high


def _error(output: Tensor, wanted: Tensor) -> float:
    return float((output - wanted).norm() / wanted.norm())


EXPERIMENT = Experiment(
    name="one-step",
    title="One step with the right learning rate",
    question="Does a rate exist that makes the answer right in one step, and is it positive?",
    cells=cells,
    full={"n": 1000},
    quick={"n": 200},
    differs="The paper's proof divides by vectors; it is right for one linear output.",
    why="Random linear problems; more change no digit that is shown.",
)
