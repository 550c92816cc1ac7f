"""The terminal: git's words on an agent's state.

Read `program.py` (options, verbs, exit codes), then `place.py` (which store, which branch).
`verbs` has a file for each kind of verb, `screen` shows what they found, `running` runs code in
steps, `notebook` is the extension for IPython, `story` is the demo.
"""

from otolith.cli.program import main, program

__all__ = ["main", "program"]
