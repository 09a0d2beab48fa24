"""The former place of `alu.report.charts.dots`, for the paper's page."""

from alu.report.charts import GREY, Dot, dots
from alu.report.charts import standalone as alone

__all__ = ["GREY", "Dot", "alone", "dots"]
