"""The command line: git's verbs on an agent's state.

Read `main.py` (options, commands, exit codes), then `location.py` (which store, which branch).
`commands/` has a file for each group of commands, `format/` turns results into text, `run/` runs
code and agents, `ipython.py` is the extension for notebooks.
"""

from otolith.cli.main import main, program

__all__ = ["main", "program"]
