"""Analysis: what can be known about a chart without running it for real.

    check                           what is wrong, or probably not meant     explore
every configuration it can rest in, and the events between them     shortest_paths, simple_paths
scripts that lead somewhere, and that can be replayed     simulate                        one
script, with a virtual clock     pytest_cases                    tests, as source     accepts,
coverage               whether it would have taken a recorded run; how much runs covered     diff
what is different between two versions

All are functions of a `CompiledChart` (`diff`: of definitions) that change nothing. Read
`explore.py`, then `abstract.py`: why a configuration that is not found there cannot happen.
"""

from otolith.statecharts.analysis.check import check
from otolith.statecharts.analysis.diff import ChartChange, diff
from otolith.statecharts.analysis.explore import (
    Configuration,
    Edge,
    StateGraph,
    StepProblem,
    explore,
)
from otolith.statecharts.analysis.findings import Finding
from otolith.statecharts.analysis.paths import (
    Path,
    PathProblem,
    Paths,
    shortest_paths,
    simple_paths,
)
from otolith.statecharts.analysis.simulate import (
    Coverage,
    CoverageShare,
    Refusal,
    SimulationRun,
    SimulationStep,
    Verdict,
    accepts,
    coverage,
    simulate,
)
from otolith.statecharts.analysis.test_generation import pytest_cases

__all__ = [
    "ChartChange",
    "Configuration",
    "Coverage",
    "CoverageShare",
    "Edge",
    "Finding",
    "Path",
    "PathProblem",
    "Paths",
    "Refusal",
    "SimulationRun",
    "SimulationStep",
    "StateGraph",
    "StepProblem",
    "Verdict",
    "accepts",
    "check",
    "coverage",
    "diff",
    "explore",
    "pytest_cases",
    "shortest_paths",
    "simple_paths",
    "simulate",
]
