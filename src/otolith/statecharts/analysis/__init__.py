"""What can be known about a chart without running it for real.

check             what is wrong, or likely not meant
explore           every configuration it can rest in, and the events between them
shortest_paths, simple_paths    scripts that lead somewhere, and really replay
simulate, monte_carlo           one script, or many random runs, with a virtual clock
pytest_cases, machine_of        tests as source, and random walks for Hypothesis
accepts, coverage               would it have taken what was recorded, and how much was covered
diff              what is different between two versions

All are functions of a `Model` (or, `diff`, of definitions) that change nothing. Read
`exploring.py`, then `abstraction.py`: why what is not found there cannot happen.
"""

from otolith.agent.lifecycle.analysis.acceptance import Verdict, accepts
from otolith.agent.lifecycle.analysis.chances import Forecast, monte_carlo
from otolith.agent.lifecycle.analysis.checking import check
from otolith.agent.lifecycle.analysis.comparing import Change, diff
from otolith.agent.lifecycle.analysis.coverage import Coverage, Share, coverage
from otolith.agent.lifecycle.analysis.exploring import explore
from otolith.agent.lifecycle.analysis.findings import Finding
from otolith.agent.lifecycle.analysis.graph import Configuration, Edge, Graph, Trouble
from otolith.agent.lifecycle.analysis.paths import Path, Paths, shortest_paths, simple_paths
from otolith.agent.lifecycle.analysis.simulating import Refusal, Run, Stage, simulate
from otolith.agent.lifecycle.analysis.testing import pytest_cases
from otolith.agent.lifecycle.analysis.walking import machine_of

__all__ = [
    "Change",
    "Configuration",
    "Coverage",
    "Edge",
    "Finding",
    "Forecast",
    "Graph",
    "Path",
    "Paths",
    "Refusal",
    "Run",
    "Share",
    "Stage",
    "Trouble",
    "Verdict",
    "accepts",
    "check",
    "coverage",
    "diff",
    "explore",
    "machine_of",
    "monte_carlo",
    "pytest_cases",
    "shortest_paths",
    "simple_paths",
    "simulate",
]
