"""`otolith diff` and `show`: what differs is told, whatever kind it is of."""

from __future__ import annotations

from otolith import Disk, Versioned
from otolith.cli.commands.show import StateDifference
from otolith.views import ChangeLine
from tests.unit.cli.terminal import data, run


def test_the_places_of_what_an_agent_has_in_mind_are_named(place):
    with Versioned(Disk(place / "a.db"), session="trip") as state:
        state.commit("begin", allow_empty=True)
        state.memory.goal = "fly"
        state.commit("goal")
        state.memory.gather(seat=2)
        state.memory.finish("done")
        state.commit("end")

    told = data("diff", "@~2", "@")["agent"]
    assert "task" in [each["what"] for each in told]
    named = run("diff", "--name-only", "@~2", "@")
    assert (named.exit_code, named.output) == (0, ".memory\n")


def test_a_kind_that_is_new_has_a_place():
    assert StateDifference([], agent=[ChangeLine("wish", "w", "added", "a window")]).paths() == [
        ".memory"
    ]
