"""Values that contain themselves are stored as trees, and come back as they were."""

from __future__ import annotations

from typing import Any

import pytest

from otolith.codecs import Codecs, InertCodecs, Opaque, cyclic_objects, graph_form
from otolith.core import Encoding
from otolith.errors import Corrupt
from otolith.types import Tag, Tagged
from tests.unit.codecs import classes as c


def form(value):
    codecs = Codecs()
    return graph_form(value, codecs.lower, Encoding(codecs).key)


def again(value):
    encoding = Encoding(Codecs())
    return encoding.decode(encoding.encode(form(value)))


def circle(*between):
    """Return a list that contains itself, with other objects on the way."""
    first: list[Any] = []
    last = first
    for wrap in between:
        last.append(made := wrap())
        last = made if type(made) is list else made[0]
    last.append(first)
    return first


def test_only_what_contains_itself_is_a_graph():
    inner = circle()
    assert form({"a": [1], "b": (2,)}) is None
    assert form({"a": [1], "b": inner})["a"] == [1]
    assert cyclic_objects([inner, [3]]) == {id(inner)}


def test_the_form_is_a_tree_with_steps():
    loop: list[Any] = [1]
    loop.append({"up": loop})
    stored = form(loop)
    assert stored == Opaque(Tagged(Tag.GRAPH, [1, {"up": Opaque(Tagged(Tag.SAME, []))}]))


def test_a_reference_without_its_graph_is_stored_as_it_was():
    codecs = Codecs()
    assert codecs.lower(codecs.lift(Tag.SAME, ["up", 1])) == Tagged(Tag.SAME, ["up", 1])


def test_an_object_in_a_graph_is_written_out_once():
    """Each of twenty lists refers to all others: the ways through them have no end."""
    lists: list[list[Any]] = [[at] for at in range(20)]
    for each in lists:
        each.extend(other for other in lists if other is not each)
    size = len(Encoding(Codecs()).encode(form(lists[0])))
    assert size < 20_000
    back = again(lists[0])
    names = sorted(each[0] for each in back[1:])
    assert names == list(range(1, 20))
    is_closed = all(any(other is back for other in each) for each in back[1:])
    assert is_closed


def test_lists_dicts_tuples_and_models_close_circles():
    ways: Any = ((list, list), (lambda: ([],),), (list, lambda: ([],), list))
    for between in ways:
        back = here = again(circle(*between))
        met: list[type] = []
        while len(met) < 10 and not (met and here is back):
            met.append(type(here))
            here = here[0]
        assert len(met) < 10
    parent = c.Step("parent")
    parent.cost = [c.Step("child", parent)]
    assert again(parent).cost[0].cost.name == "parent"


def test_a_tuple_in_a_circle_is_one_tuple():
    inner: list[Any] = []
    other: list[Any] = []
    pair = (inner, other)
    inner.append(pair)
    other.append(pair)
    first, second = again(inner)[0]
    assert first[0] is second[0]


def test_the_form_does_not_depend_on_the_order_of_keys():
    left: dict[str, Any] = {}
    right: dict[str, Any] = {}
    shared = [left]
    left.update(a=shared, b=shared)
    shared = [right]
    right.update(b=shared, a=shared)
    assert steps_in(form(left)) == steps_in(form(right)) == [("b", ["a"])]


def steps_in(stored):
    """Return the steps of each reference, by the key it is under."""
    tree = stored.tagged.data
    return sorted((key, part.tagged.data) for key, part in tree.items() if type(part) is Opaque)


def test_codecs_that_know_no_graphs_read_a_tree():
    encoding = Encoding(InertCodecs())
    stored = Encoding(Codecs()).encode(form(circle()))
    assert encoding.encode(encoding.decode(stored)) == stored
    assert isinstance(Encoding(Codecs(opaque=True)).decode(stored), Opaque)


@pytest.mark.parametrize("steps", [[5], ["a"], [0, 0], "x"])
def test_steps_that_lead_nowhere_are_corrupt(steps):
    codecs = Codecs()
    with pytest.raises(Corrupt):
        codecs.lift(Tag.GRAPH, [codecs.lift(Tag.SAME, steps)])
