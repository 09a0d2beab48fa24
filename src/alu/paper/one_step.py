"""one-step: the appendix's learning rate, in the linear case where it holds, and where it stops holding."""

from __future__ import annotations

from statistics import median

from alu.paper import store
from alu.paper.base import Cell, Experiment, Tensor, Workbench
from alu.paper.claims import Verdict, at_least, claim, every
from alu.paper.store import Measured, Results, ones
from alu.paper.views import Panel, Table, percent
from alu.stats import Share

PIXELS, CODE = 48, 12


class Key(store.Key, experiment="one-step"):
    """How many outputs the linear classifier has, and whether the label is the one it gives the image."""

    outputs: int
    fitting: bool = False

    def __str__(self) -> str:
        return f"{self.outputs} outputs{', label of the image' if self.fitting else ''}"


VERSIONS = {Key(1): 1, Key(1, True): 1, Key(10): 2, Key(10, True): 1}
"""One output, for which the algebra is right, and ten, for which no one rate can be; each also with the label that the
classifier gives the image, as the appendix assumes."""


def measure(bench: Workbench, key: Key) -> Measured:
    """For each draw of a linear decoder and classifier, an image and a code: the rate, its sign, and the error of the
    output before and after one step, as a share of the wanted output."""
    import torch

    from alu.rng import generator

    stream = generator(bench.seed, "one step", key.outputs)
    shapes = ((PIXELS, CODE), (key.outputs, PIXELS), (PIXELS,), (CODE,), (key.outputs,))
    rates, before, after, right = [], [], [], []
    for _ in range(bench.sizes["n"]):
        decoder, classifier, image, code, wanted = (
            torch.randn(shape, generator=stream, dtype=torch.float64) for shape in shapes
        )
        if key.fitting:
            wanted = classifier @ image
        rate = best_rate(decoder, classifier, image, code, wanted)
        stepped = code + rate * 2 * decoder.T @ (image - decoder @ code)
        rates.append(float(rate))
        before.append(_error(classifier @ decoder @ code, wanted))
        after.append(_error(classifier @ decoder @ stepped, wanted))
        right.append(some_rate(decoder, classifier, image, code, int(wanted.argmax())))
    measured: Measured = {"n": bench.sizes["n"], "rate": rates, "error before": before, "error after": after}
    if key.outputs > 1:  # one output has no other class that could be answered
        measured["some rate is right"] = "".join(str(int(one)) for one in right)
    return measured


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


def _positive(measured: Measured) -> Share:
    return Share(sum(rate > 0 for rate in measured["rate"]), measured["n"])


def view(results: Results) -> list[Panel]:
    """The error before and after one step, and the rate's sign."""
    rows = []
    for key, measured in results.measured(VERSIONS):
        before, after = measured["error before"], measured["error after"]
        errors = [f"{value:.3g}" for value in (median(before), median(after), max(after))]
        rows.append([str(key), *errors, percent(_positive(measured)), percent(measured.get("some rate is right"))])
    title = "One step with the best rate"
    header = [
        "linear problem", "median error before", "median error after", "largest error after", "best rate is positive",
        "some positive rate gives the right answer",
    ]  # fmt: skip
    note = "Error: distance to the wanted output, divided by its size. Computing the rate needs the true label."
    return [Table(title, header, rows, note)]


@claim("one step suffices in theory", "A positive learning rate exists that makes the answer right in one step.")
def one_step(results: Results) -> Verdict:
    """The error after one step, and the rate's sign where the appendix's assumptions are met."""
    one, fitting, ten = (results.need(key) for key in (Key(1), Key(1, True), Key(10, True)))
    positive, exists = _positive(fitting), ones(ten["some rate is right"])
    figures = [
        f"One linear output: the largest error after the step is {max(one['error after']):.1g}, with a rate that needs "
        "the true label",
        f"If that label is the classifier's own answer to the image, the rate is positive in {percent(positive)}",
        "Ten outputs and that label: a positive rate that makes the answer right in one step exists in "
        f"{percent(exists)}",
    ]
    return Verdict(
        every([at_least(positive, 0.99), at_least(exists, 0.99)]), figures, "To hold: at least 99 % of each."
    )


EXPERIMENT = Experiment(
    Key,
    lambda sizes: [Cell(key, version=version) for key, version in VERSIONS.items()],
    measure,
    view,
    title="One step with the right learning rate",
    question="Does a rate exist that makes the answer right in one step, and is it positive?",
    sizes={"n": (1000, 200)},
    differs="The paper's proof divides by vectors, so it is valid only for a single linear output.",
    why="Random linear problems; more of them would change no digit that is shown.",
    claims=(one_step,),
)
