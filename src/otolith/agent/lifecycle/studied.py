"""What can be asked of a chart that does not run: is it right, where does it lead, its text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from otolith.agent.lifecycle import analysis
from otolith.agent.lifecycle.analysis import (
    Change,
    Coverage,
    Finding,
    Forecast,
    Graph,
    Paths,
    Run,
    Verdict,
)
from otolith.agent.lifecycle.analysis.acceptance import Recorded
from otolith.agent.lifecycle.analysis.exploring import Guards
from otolith.agent.lifecycle.analysis.paths import Goal
from otolith.agent.lifecycle.analysis.scripts import Item
from otolith.agent.lifecycle.definition import Definition
from otolith.agent.lifecycle.formats.graphviz_writing import to_dot
from otolith.agent.lifecycle.formats.mermaid_writing import to_mermaid
from otolith.agent.lifecycle.formats.scxml_writing import to_scxml
from otolith.agent.lifecycle.formats.xstate_writing import to_xstate
from otolith.agent.lifecycle.model import Model


class Studied:
    """A chart, to be looked into. Nothing here changes it, and nothing outside is done."""

    definition: Definition
    model: Model
    is_strict: bool

    # Is it right?

    def check(self) -> list[Finding]:
        """Return what is wrong with the chart, or likely not meant; errors first."""
        return analysis.check(self.model)

    def explore(
        self,
        *,
        guards: Guards = "both",
        events: Iterable[Item] | None = None,
        data: Mapping[str, Any] | None = None,
        max_configurations: int = 100_000,
    ) -> Graph:
        """Return every configuration that the chart can rest in, and what leads between them.

        With guards "both", each may say yes or no, and what is not found cannot happen; with "real"
        they are asked, and every way that is found really replays.
        """
        return analysis.explore(
            self.model,
            guards=guards,
            events=events,
            data=data,
            max_configurations=max_configurations,
        )

    # Where does it lead?

    def paths(
        self,
        to: Goal | None = None,
        *,
        simple: bool = False,
        events: Iterable[Item] | None = None,
        data: Mapping[str, Any] | None = None,
        limit: int = 1_000,
    ) -> Paths:
        """Return the shortest path to each set of active states, or to the state `to`.

        With `simple`, all paths that meet no configuration twice, up to `limit`.
        """
        if simple:
            return analysis.simple_paths(self.model, to, limit=limit, events=events, data=data)
        return analysis.shortest_paths(self.model, to, events=events, data=data)

    def simulate(
        self, events: Iterable[Item], *, data: Mapping[str, Any] | None = None, now: int = 0
    ) -> Run:
        """Play a script: names, (name, data) pairs, and ("after", seconds) to let time pass.

        What the chart does not take ends the run with a report, `run.refusal`.
        """
        strict = self.is_strict
        return analysis.simulate(self.model, events, data=data, now=now, is_strict=strict)

    def forecast(
        self,
        seed: int,
        runs: int = 1_000,
        *,
        weights: Mapping[str, float] | None = None,
        events: Iterable[Item] | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> Forecast:
        """Return what many random runs come to; `weights` are how often a second events happen."""
        return analysis.monte_carlo(
            self.model, seed, runs, weights=weights, events=events, data=data
        )

    # What about the past?

    def accepts(
        self,
        events: Iterable[Recorded],
        *,
        data: Mapping[str, Any] | None = None,
        started: int | None = None,
    ) -> Verdict:
        """Tell whether this chart would have taken a run that was recorded, as `machine.log()`.

        `started` is when the run began, in microseconds; timers count from then.
        """
        return analysis.accepts(self.model, events, start_data=data, started=started)

    def coverage(self, runs: Iterable[Run | Iterable[Recorded]]) -> Coverage:
        """Return how much of the chart recorded or simulated runs have covered."""
        return analysis.coverage(self.model, runs)

    def diff(self, older: Studied) -> list[Change]:
        """Return what was changed since an older version of the chart, in words."""
        return analysis.diff(older.definition, self.definition)

    # Tests

    def test_source(
        self, paths: Paths, *, chart: str | None = None, data: dict[str, Any] | None = None
    ) -> str:
        """Return the source of a pytest file with a test for each path.

        `chart` says where the tests find the chart: "package.module:NAME", or its file.
        """
        return analysis.pytest_cases(self.model if chart is None else chart, paths, data=data)

    def walker(
        self, *, events: Iterable[Item] | None = None, data: Mapping[str, Any] | None = None
    ) -> type[Any]:
        """Return a state machine for Hypothesis that walks through the chart at random."""
        return analysis.machine_of(self.model, events=events, data=data)

    # How is it written?

    def to_xstate(self) -> dict[str, Any]:
        """Return the chart as a config of XState, of plain data."""
        return to_xstate(self.definition)

    def to_scxml(self) -> str:
        """Return the chart as an SCXML document."""
        return to_scxml(self.definition)

    def to_mermaid(self, active: Collection[str] = ()) -> str:
        """Return a diagram in Mermaid's language; `active` states stand out."""
        return to_mermaid(self.definition, active)

    def to_dot(self, active: Collection[str] = ()) -> str:
        """Return a graph in the language of Graphviz; `active` states stand out."""
        return to_dot(self.definition, active)
