"""evaluate and other_networks, under the names that the experiments still import."""

from collections.abc import Callable

from alu.evaluation.evaluate import evaluate as _evaluate
from alu.evaluation.result import Result
from alu.evaluation.suite import other_networks

evaluate: Callable[..., Result] = _evaluate
__all__ = ["evaluate", "other_networks"]
