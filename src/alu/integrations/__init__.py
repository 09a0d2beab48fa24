"""A defence in other tools: one function for each; the tool is imported only when the function is called."""

from alu.integrations.art import to_art
from alu.integrations.foolbox import to_foolbox
from alu.integrations.pyautoattack import to_autoattack
from alu.integrations.robustbench import export, load

__all__ = ["export", "load", "to_art", "to_autoattack", "to_foolbox"]
