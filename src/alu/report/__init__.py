"""Reports: results in, one self-contained page out. Nothing here needs torch."""

from alu.report.evaluation import write

__all__ = ["write"]
