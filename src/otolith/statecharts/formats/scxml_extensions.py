"""otolith's own words in SCXML: an XML namespace for what the standard has no words for.

Other processors pass over them, and see a chart as near as SCXML can come: an event after a delay
is sent on entry and cancelled on exit, a guard that is a Python function never holds, a root that
does more than a root may is a state of its own.

On any element:

- `otolith:as="expr:json delay:ms cond:python"`: how attributes are to be read: a value as JSON, a
  number of milliseconds, an expression of another dialect, or (`none`) not at all.
- `otolith:generated="true"`: made for other processors only; there is no such thing in the chart.

On states: `otolith:id` (an id that XML cannot have), `otolith:root`, `otolith:tags`,
`otolith:meta`, `otolith:description`, `<otolith:output>`. On transitions: `otolith:guard`,
`otolith:guard-params`, `otolith:delay`, `otolith:events`, `otolith:meta`, `otolith:description`. On
`<scxml>`: `otolith:id`, `otolith:matching`, `otolith:rules`, `otolith:version`, `<otolith:script>`.
In `<invoke>`: `<otolith:input>`. Actions: `<otolith:call>`, `<otolith:emit>`, and
`<send otolith:raise="true">`.
"""

from __future__ import annotations

import json
from typing import Any

from otolith.errors import BadChart
from otolith.statecharts.definition import Expression, Guard, Literal, NamedGuard, Value
from otolith.statecharts.formats.extensions import read_payload_form
from otolith.statecharts.formats.xml import OWN, Element

PREFIX = "otolith:"


def own(element: Element, name: str) -> str | None:
    """Return an attribute of our own."""
    return element.get(f"{PREFIX}{name}")


def is_generated(element: Element) -> bool:
    """Whether it was made for other processors only."""
    return own(element, "generated") == "true"


def own_child(element: Element, tag: str) -> Element | None:
    """Return the first child of our own that has a name."""
    found = (child for child in element.children if child.namespace == OWN and child.tag == tag)
    return next(found, None)


def own_json(element: Element, name: str) -> Any:
    """Return what an attribute of our own holds as JSON; None if it is not there."""
    text = own(element, name)
    if text is None:
        return None
    return _json(text, f"{PREFIX}{name}", element)


def computed(element: Element, name: str, dialect: str) -> Value | None:
    """Return the value of an attribute that is an expression, unless it is marked as something."""
    text = element.get(name)
    if text is None:
        return None
    mark = _mark(element, name)
    if mark == "json":
        return Literal(_json(text, name, element))
    return Expression(text, mark or dialect)


def plain(element: Element, name: str) -> Value | None:
    """Return the value of an attribute that is a text, unless it is marked as a number."""
    text = element.get(name)
    if text is None:
        return None
    if _mark(element, name) == "ms":
        return Literal(_json(text.removesuffix("ms"), name, element))
    return Literal(text)


def guard_of(element: Element, dialect: str) -> Guard | None:
    """Return the guard of a transition or of a branch."""
    name = own(element, "guard")
    if name is not None:
        pairs = own_json(element, "guard-params")
        params = () if pairs is None else read_payload_form({"params": pairs}, element.place).params
        return NamedGuard(name, params)
    text, mark = element.get("cond"), _mark(element, "cond")
    if text is None or mark == "none" or (mark is None and not text.strip()):
        return None
    return Expression(text, mark or dialect)


def events_of(element: Element, said: tuple[str, ...]) -> tuple[str, ...]:
    """Return the events of a transition, given those that SCXML says."""
    if own(element, "delay") is not None:
        return ()
    return said if own(element, "events") is None else _texts(element, "events")


def delay_of(element: Element) -> Value | None:
    """Return how long after its state was entered a transition is taken."""
    form = own_json(element, "delay")
    return None if form is None else read_payload_form({"content": form}, element.place).content


def remarks(element: Element) -> dict[str, Any]:
    """Return the fields that say something about a state or a transition."""
    meta = own_json(element, "meta")
    if meta is not None and not isinstance(meta, dict):
        raise BadChart(f"{PREFIX}meta is not an object", place=element.place)
    return {"description": own(element, "description") or "", "meta": meta}


def tags(element: Element) -> tuple[str, ...]:
    return _texts(element, "tags")


def aliases(element: Element) -> dict[str, str]:
    """Return the ids that stand for others, in a chart but not in those inside of it."""
    found: dict[str, str] = {}
    id, real = element.get("id"), own(element, "id")
    if id is not None and real is not None:
        found[id] = real
    for child in element.children:
        found |= {} if child.tag == "scxml" else aliases(child)
    return found


def _texts(element: Element, name: str) -> tuple[str, ...]:
    found = own_json(element, name) or []
    if not isinstance(found, list):
        raise BadChart(f"{PREFIX}{name} is not a list", place=element.place)
    return tuple(str(text) for text in found)


def _mark(element: Element, name: str) -> str | None:
    for word in (own(element, "as") or "").split():
        attribute, _, mark = word.partition(":")
        if attribute == name:
            return mark
    return None


def _json(text: str, name: str, element: Element) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadChart(f"{name} is not JSON", place=element.place) from error
