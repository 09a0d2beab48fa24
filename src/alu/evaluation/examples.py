"""Pictures as data URIs, under the name that the demo still imports."""

from alu.evaluation.cascade import png

__all__ = ["png"]
