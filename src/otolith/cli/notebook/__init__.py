"""In IPython and Jupyter: `%load_ext otolith`, and every cell is a commit of the variables.

Read `extension.py` (the magic and the hook), then `keeper.py` (variables to state, and back).
"""

from otolith.cli.notebook.extension import load, unload

__all__ = ["load", "unload"]
