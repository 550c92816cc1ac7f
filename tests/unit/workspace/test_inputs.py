"""Values that the host hands to a session: any that can be pickled, all of them or none."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest

from otolith import Versioned
from otolith.errors import BadValue, Invalid
from otolith.workspace import Runner, Workspace


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


class Color(Enum):
    RED = 1


def mine(x: int) -> int:
    """A function of the program."""
    return x + 1


def test_functions_classes_and_what_python_has_are_given_too(workspace: Workspace) -> None:
    circle: list[object] = []
    circle.append(circle)
    workspace.put(
        f=mine, kinds=[Order, int], table={"f": mine}, span=range(3), cut=slice(1, 2),
        root=math.sqrt, error=ValueError("x"), floats=np.float32, circle=circle,
        own=np.array([Order(1)]), colors=pd.Series([Color.RED]),
        frame=pd.DataFrame({"o": [Order(2)]}),
    )  # fmt: skip
    code = "f(1), kinds[0](3).doubled(), table['f'](2), sum(span), root(4.0), circle[0] is circle"
    assert workspace.run(code).value == (2, 6, 3, 3, 2.0, True)
    code = "own[0].price, colors[0].name, frame.o[0].doubled(), str(error), cut.start"
    assert workspace.run(code).value == (1, "RED", 4, "x", 1)


def test_a_class_that_a_library_has_looked_at_is_given_and_kept(workspace: Workspace) -> None:
    order = msgspec.convert({"price": 3}, Order)
    assert "__msgspec_cache__" in vars(Order)
    workspace.put(order=order)
    assert workspace.run("order.doubled()").value == 6
    assert msgspec.convert({"price": 4}, Order) == Order(4)
    looked = "import msgspec\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n"
    assert workspace.run(f"{looked}a = msgspec.convert({{'x': 1}}, A)").lost == {}
    assert workspace.run("msgspec.convert({'x': a.x + 1}, A).x").value == 2


def test_what_no_worker_could_import_is_refused(workspace: Workspace) -> None:
    with pytest.raises(BadValue, match="no worker can import"):
        workspace.put(here=sys.modules[__name__])
    with pytest.raises(Invalid, match="cannot name"):
        workspace.put(**{"class": 1})
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(BadValue):
        workspace.put(deep=deep)


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
