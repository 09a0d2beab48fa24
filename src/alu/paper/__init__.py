"""The paper, measured again: one file for each of its tables and figures, with its cells, its view and its claims."""
