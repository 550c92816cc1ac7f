"""The terminal: git's words on an agent's state.

Read `main.py` (options, verbs, exit codes), then `location.py` (which store, which branch).
`verbs` has a file for each kind of verb, `screen` shows what they found, `running` runs code in
steps, `notebook` is the extension for IPython, `story` is the demo.
"""

from otolith.cli.main import main, program

__all__ = ["main", "program"]
