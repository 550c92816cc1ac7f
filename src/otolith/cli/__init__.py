"""The terminal: git's words on an agent's state.

Read `program.py` (options, verbs, exit codes), then `place.py` (which store, which branch). A file
beside them has the verbs of one kind; `words`, `values`, `graph` and `output` put things on screen.
"""

from otolith.cli.program import main, program

__all__ = ["main", "program"]
