"""The terminal: git's words on an agent's state. Read `program.py`, then `place.py`."""

from otolith.cli.program import main, program

__all__ = ["main", "program"]
