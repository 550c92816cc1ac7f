"""What can be known about a chart without running it for real.

check             what is wrong, or likely not meant
explore           every configuration it can rest in, and the events between them
shortest_paths, simple_paths    scripts that lead somewhere, and really replay
simulate, monte_carlo           one script, or many random runs, with a virtual clock
pytest_cases, machine_of        tests as source, and random walks for Hypothesis
accepts, coverage               would it have taken what was recorded, and how much was covered
diff              what is different between two versions

All are functions of a `Model` (or, `diff`, of definitions) that change nothing. Read
`explore.py`, then `abstract.py`: why what is not found there cannot happen.
"""

from otolith.statecharts.analysis.check import check
from otolith.statecharts.analysis.diff import Change, diff
from otolith.statecharts.analysis.explore import Configuration, Edge, Graph, Trouble, explore
from otolith.statecharts.analysis.findings import Finding
from otolith.statecharts.analysis.paths import Path, Paths, shortest_paths, simple_paths
from otolith.statecharts.analysis.simulate import (
    Coverage,
    Forecast,
    Refusal,
    Run,
    Share,
    Stage,
    Verdict,
    accepts,
    coverage,
    monte_carlo,
    simulate,
)
from otolith.statecharts.analysis.test_generation import machine_of, pytest_cases

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
