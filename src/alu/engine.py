"""onnxruntime: what runs the graphs of an exported defence. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from alu.errors import InputError, MissingExtraError, StorageError

Array = NDArray[Any]
NEXT = "next."
"""Stands before the name of an output that takes the place of the input of that name."""
ADVICE = "Copy the folder again, or export the defence again."


class Graph:
    """One ONNX graph: values in by name, values out by name."""

    def __init__(self, path: Path, threads: int | None) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtraError("alu.exported", "onnxruntime", "exported") from error
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        if threads is not None:
            options.intra_op_num_threads = threads
        # The graphs take turns: threads of one that wait in a busy loop would slow the next one down.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has a class of its own for each reason
            raise StorageError(f"onnxruntime cannot load {path}: {_reason(error)}. {ADVICE}") from error
        self.name = path.stem
        self.inputs = [item.name for item in self.session.get_inputs()]
        self.outputs = [item.name for item in self.session.get_outputs()]

    def run(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs; `values` may hold more than the graph takes."""
        try:
            found = self.session.run(None, {name: values[name] for name in self.inputs})
        except Exception as error:
            raise InputError(f"onnxruntime failed in {self.name}: {_reason(error)}.") from error
        return {name.removeprefix(NEXT): value for name, value in zip(self.outputs, found, strict=True)}


def engine() -> str:
    """What this process runs graphs with."""
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"


def _reason(error: Exception) -> str:
    """The first line of somebody else's error, without the dot at its end."""
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
