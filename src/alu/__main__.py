"""python -m alu."""

from alu.cli import main

main()
