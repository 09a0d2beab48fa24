"""A result as text, under the names that the reports still import."""

from alu.evaluation.text import eps_text, stamps
from alu.evaluation.text import setting as judged

__all__ = ["eps_text", "judged", "stamps"]
