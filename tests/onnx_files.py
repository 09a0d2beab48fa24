"""ONNX files for tests: from the text of a graph, and a bundled classifier as somebody would export it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import alu

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install -e '.[dev]'")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install -e '.[onnx]'")


def from_text(path: Path, graph: str) -> Path:
    """Write a file from the text of its graph."""
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}'), path)
    return path


def constants() -> dict[str, Any]:
    """The normalisation of the bundled classifier."""
    layer: Any = alu.models.load("cifar10-standard").normalize
    return {"mean": layer.mean.flatten().tolist(), "std": layer.std.flatten().tolist()}


def exported(path: Path) -> Path:
    """Write the bundled classifier without its normalisation."""
    network = alu.models.load("cifar10-standard").to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    network.normalize = torch.nn.Identity()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package is an old one
        torch.onnx.export(
            network, (torch.rand(2, 3, 32, 32),), path, dynamo=False, input_names=["pixels"], output_names=["logits"],
            dynamic_axes={"pixels": {0: "n"}, "logits": {0: "n"}},
        )  # fmt: skip
    return path
