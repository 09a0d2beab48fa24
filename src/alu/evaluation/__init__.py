"""Evaluation: outcomes in, numbers with intervals out."""
