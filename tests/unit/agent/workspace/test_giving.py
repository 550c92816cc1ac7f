"""Values that the host hands to a session: any that can be pickled, all of them or none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from otolith import Versioned
from otolith.agent.workspace import Runner, Workspace
from otolith.errors import BadValue


@dataclass
class Order:
    """A class of the program, which no worker can import."""

    price: int

    def doubled(self) -> int:
        return 2 * self.price


class Hollow:
    """Can be pickled, and not be made again."""

    def __reduce__(self) -> tuple[type, tuple[int, ...]]:
        return (Order, ())


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Versioned().workspace(runner=Runner(sandbox="limits"), folder=tmp_path / "w") as found:
        yield found


def test_objects_of_the_program_become_variables_with_their_classes(workspace: Workspace) -> None:
    workspace.put(
        half=Fraction(1, 2), order=Order(4), orders=[Order(5)], add=lambda x: x + 1, n={"k": (1,)}
    )
    code = "int(half * 2), order.doubled(), orders[0].doubled(), add(1), n['k'][0]"
    assert workspace.run(code).value == (1, 8, 10, 2, 1)
    assert {each.name: each.kind for each in workspace.vars()}["n"] == "data"


def test_what_was_given_is_there_in_another_process(tmp_path: Path) -> None:
    state = Versioned()
    runner = Runner(sandbox="limits")
    with state.workspace(runner=runner, folder=tmp_path / "one") as workspace:
        workspace.put(order=Order(4))
    with Versioned(state.repo).workspace(runner=runner, folder=tmp_path / "two") as workspace:
        assert workspace.run("order.price += 1; order.doubled()").value == 10


@pytest.mark.parametrize("bad", [threading.Lock(), Hollow()])
def test_if_one_cannot_be_handed_over_none_is_set(workspace: Workspace, bad: object) -> None:
    workspace.put(before=1)
    head = workspace.state.head
    with pytest.raises(BadValue, match="bad"):
        workspace.put(fine=1, bad=bad)
    assert workspace.state.head == head
    assert [each.name for each in workspace.vars()] == ["before"]
    assert workspace.run("before").value == 1
