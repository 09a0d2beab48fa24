"""Shares, under the name that the experiments still import them by."""

from alu.stats import Share

__all__ = ["Share"]
