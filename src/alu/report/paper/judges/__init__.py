"""Judges: one function for each of the paper's claims; what a verdict needs is in `alu.report.paper.judging`."""
