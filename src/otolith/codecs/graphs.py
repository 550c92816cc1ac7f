"""Values as graphs of objects: steps from object to object, and values that contain themselves.

A *step* leads into a value: the key of a dict, the index of a list, a tuple or an array of objects,
the attribute of a model.

Forms (they never change, see `docs/reference/format-v1.md`)

    GRAPH  any value      a value that contains itself; each object in it is written out once
    SAME   [step, ...]    in a GRAPH: the object that these steps lead to from the top of the GRAPH

Theory of operation
1. `graph_form` puts a GRAPH around each object that contains itself and is in no other GRAPH.
   Inside, an object that was met before is a SAME. Dicts are walked in the order of their keys, so
   that the form does not depend on the order in which a dict was filled.
2. Parts are lifted before what they are in, so a SAME is lifted to a `SameObject`. When the GRAPH
   is lifted, all objects are there, and `_close` puts them in the places of these.
3. A reader that knows neither reads a tree that ends: the steps of a SAME are data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from otolith.codecs.base import VERIFY, Lowering
from otolith.codecs.instance_state import set_attributes
from otolith.codecs.models import attributes_of, fields_of
from otolith.codecs.placeholders import Opaque
from otolith.errors import Corrupt
from otolith.types import Tag, Tagged

Order: TypeAlias = Callable[[Any], bytes]
"""Gives the bytes that a key is sorted by."""

Steps: TypeAlias = tuple[Any, ...]

_PLAIN = frozenset({dict, list, tuple})
_ATOMS = frozenset({type(None), bool, int, float, str, bytes})


def has_parts(kind: type) -> bool:
    """Tell whether steps lead into values of a type."""
    return kind in _PLAIN or fields_of(kind) is not None


def parts_of(value: Any, order: Order | None = None) -> list[tuple[Any, Any]]:
    """Return the steps into a value, and what is there; those of a dict in this order."""
    if type(value) is dict:
        parts = [pair for pair in value.items() if type(pair[1]) not in _ATOMS]
        return parts if order is None else sorted(parts, key=lambda pair: order(pair[0]))
    if type(value) in (list, tuple):
        return [pair for pair in enumerate(value) if type(pair[1]) not in _ATOMS]
    return list((attributes_of(value) or {}).items())


def part_at(value: Any, steps: Steps) -> Any:
    """Return the part that steps lead to.

    Raises:
        LookupError, AttributeError, TypeError: there is no such part.
    """
    for step in steps:
        value = _part(value, step)
    return value


def _part(value: Any, step: Any) -> Any:
    return value[step] if type(value) in _PLAIN else getattr(value, step)


def with_part(value: Any, steps: Steps, part: object) -> Any:
    """Return a value with a part put in: the value itself, unless it is a tuple."""
    if not steps:
        return part
    step: Any = steps[0]
    current = _part(value, step)
    new = with_part(current, steps[1:], part)
    if new is current:
        return value
    if type(value) is tuple:
        return (*value[:step], new, *value[step + 1 :])
    if type(value) in _PLAIN:
        value[step] = new
    elif isinstance(value, tuple) and step in value._fields:  # type: ignore[attr-defined]
        return _replaced(value, step, new)
    else:
        set_attributes(value, {step: new})
    return value


def _replaced(value: Any, step: str, part: object) -> Any:
    """Return a named tuple with another field, and its other attributes."""
    new = value._replace(**{step: part})
    set_attributes(new, getattr(value, "__dict__", {}))
    return new


# Cycles


def cyclic_objects(value: object) -> set[int]:
    """Return the identities of the objects in a value that contain themselves."""
    numbers: dict[int, int] = {}  # in which order objects were met
    lowest: dict[int, int] = {}  # the first object that is known to lead back to each
    open_ids: list[int] = []
    is_open: set[int] = set()
    cyclic: set[int] = set()
    way: list[tuple[int, Iterator[Any]]] = []

    def enter(part: Any) -> None:
        numbers[id(part)] = lowest[id(part)] = len(numbers)
        open_ids.append(id(part))
        is_open.add(id(part))
        way.append((id(part), iter(_inner(part))))

    enter(value)
    while way:
        here, rest = way[-1]
        part = next(rest, None)
        if part is not None:
            if id(part) not in numbers:
                enter(part)
            elif id(part) in is_open:
                lowest[here] = min(lowest[here], numbers[id(part)])
                cyclic |= {here} if id(part) == here else set()
            continue
        way.pop()
        if way:
            above = way[-1][0]
            lowest[above] = min(lowest[above], lowest[here])
        if lowest[here] == numbers[here]:
            circle = {open_ids.pop()}
            while here not in circle:
                circle.add(open_ids.pop())
            is_open -= circle
            if len(circle) > 1:
                cyclic |= circle
    return cyclic


def _inner(value: Any) -> list[Any]:
    """Return the parts of a value that have parts."""
    return [part for _, part in parts_of(value) if has_parts(type(part))]


def graph_form(value: object, lower: Callable[[Any], Tagged], order: Order) -> object | None:
    """Return a value in a form without cycles, or None if nothing in it contains itself."""
    cyclic = cyclic_objects(value)
    return _Forms(cyclic, lower, order).outside(value) if cyclic else None


class _Forms:
    """Makes the form of one value."""

    def __init__(self, cyclic: set[int], lower: Callable[[Any], Tagged], order: Order) -> None:
        self._cyclic = cyclic
        self._lower = lower
        self._order = order
        self._known: dict[int, object] = {}

    def outside(self, value: Any) -> Any:
        """Return the form of a value that is in no GRAPH."""
        if not has_parts(type(value)):
            return value
        if id(value) not in self._known:
            if id(value) in self._cyclic:
                form: object = Opaque(Tagged(Tag.GRAPH, self._inside(value, (), {})))
            else:
                form = self._form(value, lambda _, part: self.outside(part))
            self._known[id(value)] = form
        return self._known[id(value)]

    def _inside(self, value: Any, steps: Steps, met: dict[int, Steps]) -> Any:
        """Return the form of a value in a GRAPH, that steps lead to from the top."""
        if type(value) in _ATOMS:
            return value
        if id(value) in met:
            return Opaque(Tagged(Tag.SAME, list(met[id(value)])))
        met[id(value)] = steps
        if not has_parts(type(value)):
            return value
        return self._form(value, lambda step, part: self._inside(part, (*steps, step), met))

    def _form(self, value: Any, inner: Callable[[Any, Any], Any]) -> Any:
        """Return a value with the forms of its parts."""
        forms = {step: inner(step, part) for step, part in parts_of(value, self._order)}
        if type(value) is dict:
            return {key: forms.get(key, part) for key, part in value.items()}
        if type(value) in (list, tuple):
            parts = [forms.get(at, part) for at, part in enumerate(value)]
            return parts if type(value) is list else Opaque(Tagged(Tag.TUPLE, parts))
        code, data = self._lower(value)
        name, version, fields, *rest = cast("list[Any]", data)
        data = [name, version, {field: forms[field] for field in fields}]
        if len(rest) == 1 and len(rest[0]) == 1:  # attributes that are not fields
            rest = [[{more: forms[more] for more in rest[0][0]}]]
        return Opaque(Tagged(code, [*data, *rest]))


@dataclass(frozen=True)
class SameObject:
    """Stands for an object that is elsewhere in the same graph, while that is being read."""

    steps: Steps

    def __repr__(self) -> str:
        return f"<same as {'/'.join(map(str, self.steps)) or 'the whole'}>"


class GraphCodec:
    """The codec of values that contain themselves; `graph_form` lowers them."""

    codes: frozenset[int] = frozenset({Tag.GRAPH, Tag.SAME})

    def lowering(self, kind: type) -> Lowering | None:
        """Return the function that lowers a SameObject, which is not in a graph any more."""
        return _lower_same if kind is SameObject else None

    def lift(self, code: int, data: object) -> object:
        """Return the value of a graph, with its objects in all their places."""
        if code == Tag.GRAPH:
            return _close(data)
        if type(data) is not list:
            raise Corrupt("a reference inside a value has no steps", hint=VERIFY)
        return SameObject(tuple(data))


def _lower_same(value: SameObject) -> Tagged:
    return Tagged(Tag.SAME, list(value.steps))


def _close(top: Any) -> Any:
    """Put objects in the places of all SameObjects in a value."""
    places = list(_references(top))
    if not places:
        raise Corrupt("a value is stored as a graph, and does not contain itself", hint=VERIFY)
    try:
        # Tuples first: putting a part into one makes another tuple, and others may refer to it.
        places.sort(key=lambda place: not isinstance(part_at(top, place[0][:-1]), tuple))
        for steps, reference in places:
            top = with_part(top, steps, part_at(top, reference.steps))
    except (LookupError, AttributeError, TypeError) as error:
        raise Corrupt("a value refers to a part that it does not have", hint=VERIFY) from error
    return top


def _references(top: Any) -> Iterable[tuple[Steps, SameObject]]:
    """Yield the steps to each SameObject in a value."""
    met: set[int] = set()
    waiting: list[tuple[Steps, Any]] = [((), top)]
    while waiting:
        steps, value = waiting.pop()
        if type(value) is SameObject:
            yield steps, value
        elif id(value) not in met and has_parts(type(value)):
            met.add(id(value))
            waiting += [((*steps, step), part) for step, part in parts_of(value)]
